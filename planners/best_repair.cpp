#include "planners/best_repair.hpp"

#include <algorithm>

namespace um {
namespace {

// Limit of classes times computes times tries for each class.
constexpr std::size_t work_for_tries = 70'000'000;

class repairing {
 public:
  repairing(search_space& of, const placer& place, const target& at, const effort_limits& most)
      : place_(place), at_(at), most_(most), of_(of), aim_(at.aim), decided_for_(at.aim) {
    const std::size_t size = std::max<std::size_t>(of_.classes().size() * of_.uses().order.size(), 1);
    tries_ = std::clamp(work_for_tries / size, most.least_tries, most.most_tries);
  }

  repaired run() {
    if (of_.compute_time() >= at_.to_beat) return {};
    const std::uint64_t begun = of_.work();
    solution now = decide(of_, aim_, {tries_, most_.work});
    found_.is_cut_off = now.score.over > 0;
    for (int i = 0; i < most_.placings; ++i) {
      if (i > 0 && of_.work() - begun > 2 * most_.work) break;
      if (i > 0) now = decide_again(of_, aim_, {tries_ / 8, most_.work / 8}, now);
      const nanoseconds least = now.score.forecast.time;
      if (now.score.over == 0 && least >= at_.to_beat && !found_.best) break;
      if (now.score.over > 0 && aim_ < decided_for_) aim_ += (decided_for_ - aim_) / 2;
      if (now.score.over > 0 || least >= at_.to_beat) continue;
      decided_for_ = std::min(decided_for_, aim_);
      if (!place_and_aim(now)) break;
    }
    return std::move(found_);
  }

 private:
  // Places decisions, unless they were placed just before, and sets the memory to decide for next. False:
  // there is nothing to gain.
  bool place_and_aim(const solution& now) {
    std::optional<placed_plan> placed;
    if (now.treatments != placed_) {
      placed = place_.decided(of_.plan(now.treatments), at_.budget);
      placed_ = now.treatments;
      need_ = placed ? std::optional(placed->need) : std::nullopt;
    }
    if (!need_) {  // the data cannot be placed; with other decisions it may be
      aim_ -= aim_ / 20;
    } else if (*need_ <= at_.budget) {
      if (placed && placed->time < at_.to_beat) {
        at_.to_beat = placed->time;
        found_.best = {now.treatments, std::move(*placed)};
        found_.aim = aim_;
      }
      if (aim_ == at_.budget) return false;
      fits_ = aim_;
      aim_ += (at_.budget - aim_) / 3;
    } else {
      aim_ = std::max(fits_, aim_ - std::min(aim_, (*need_ - at_.budget) * 3 / 4 + at_.budget / 1000));
    }
    return true;
  }

  const placer& place_;
  target at_;
  effort_limits most_;
  search_space& of_;
  std::size_t tries_ = 0;
  byte_count aim_ = 0, fits_ = 0;                 // fits_: the most that was decided for and placed
  byte_count decided_for_ = 0;                    // the least that decisions were found for
  std::optional<std::vector<treatment>> placed_;  // the decisions placed last,
  std::optional<byte_count> need_;                // and what they need, if there is such a plan
  repaired found_;
};

}  // namespace

effort_limits quick_effort(std::uint64_t work) {
  return {12, 12, 3, work};
}
effort_limits full_effort(std::uint64_t work) {
  return {20, 300, 6, work};
}

repaired decide_and_place(search_space& of, const placer& place, const target& at,
                          const effort_limits& most) {
  return repairing(of, place, at, most).run();
}

std::optional<placed_plan> place_or_repair(search_space& of, const placer& place, solution decided,
                                           byte_count rung, byte_count budget, nanoseconds to_beat,
                                           const repair_limits& most) {
  byte_count aim = rung;
  for (int i = 0; i < most.placings; ++i) {
    if (i > 0) decided = decide_again(of, aim, most.by, decided);
    if (decided.score.over > 0 || decided.score.forecast.time >= to_beat) return std::nullopt;
    std::optional<placed_plan> placed = place.decided(of.plan(decided.treatments), budget);
    if (placed && placed->need <= budget) return placed;
    // If the data cannot be placed, with other decisions it may be.
    const byte_count beyond = placed ? (placed->need - rung) * 3 / 4 + rung / 1000 : aim / 20;
    aim -= std::min(aim, beyond);
  }
  return std::nullopt;
}

}  // namespace um
