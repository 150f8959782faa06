// The best plan that a search finds: keep, swap or compute again for every tensor, and how to cut the batch.
#include "planners/best.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "core/layout.hpp"
#include "planners/best_repair.hpp"
#include "planners/best_rivals.hpp"
#include "planners/best_splits.hpp"
#include "planners/planners.hpp"

namespace um {
namespace {

constexpr nanoseconds any_time = std::numeric_limits<nanoseconds>::max();

// Ratios of the footprint to the budgets that are decided for beside the one at hand, if they are smaller:
// what is found for less memory is a plan for more.
constexpr std::array ladder{1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0};
// A plan whose time exceeds that of its operators by less than half a percent is not improved: measurements
// do not tell such plans apart.
constexpr nanoseconds close_permille = 5;

// Events that the whole search may go through, by `effort`. One takes 20 to 40 ns, so that 500 operators take
// some five seconds and 10,000 some fifteen at most.
std::uint64_t all_work(const problem& p) {
  const std::uint64_t normal = 160'000'000 + 20'000 * std::uint64_t{p.network.ops.size()};
  const auto effort = p.knobs.find("effort");
  if (effort == p.knobs.end() || effort->second == 1) return normal;
  return effort->second == 0 ? normal / 8 : normal * 4;
}

class best_search {
 public:
  best_search(const problem& p, const placer& place, const search_request& by)
      : p_(p),
        place_(place),
        by_(by),
        same_bits_(p.knobs.at("bits") == 1),
        left_(all_work(p)),
        splits_(splits_of(p, same_bits_, by.and_without, why_)) {
    for (const op_cost& c : p.costs) computing_ += c.time;
  }

  memory_plan run() {
    search(p_.budget, left_ / 4 * 3);
    descend();
    // Behind the search: where rivals are nearly as fast, what they found would cut it short.
    if (!is_close(close_permille)) take(best_rival(p_, place_, by_.rivals, same_bits_));
    if (!best_) {
      throw infeasible(by_.name + " finds no plan within " + to_text(p_.budget) + " of the " +
                       to_text(footprint_of(p_.network, p_.costs).total) + " that everything takes" +
                       (by_.and_without ? "; managed memory takes whole blocks" : "") + why_);
    }
    return std::move(best_->plan);
  }

 private:
  struct look {
    const batch_split* split = nullptr;
    nanoseconds time = 0;
    byte_count aim = 0;
  };

  void take(std::optional<placed_plan> found) {
    if (found && found->need <= p_.budget && found->time < least_time()) best_ = std::move(found);
  }
  nanoseconds least_time() const { return best_ ? best_->time : any_time; }
  bool is_close(nanoseconds permille) const {
    return best_ && best_->time <= computing_ + computing_ * permille / 1000;
  }
  static nanoseconds nearly(nanoseconds time) { return time == any_time ? time : time + time / 20; }

  std::optional<look> consider(const batch_split& split, const effort_limits& most, byte_count aim,
                               nanoseconds to_beat) {
    repaired found = decide_and_place(p_, place_, split, {p_.budget, aim, to_beat}, most);
    left_ -= std::min(left_, found.work);
    if (!found.best) return std::nullopt;
    const look seen{&split, found.best->time, found.aim};
    if (seen.time < least_time()) best_split_ = &split;
    take(std::move(found.best));
    return seen;
  }

  // Every split with little effort, then the fastest of them with more: the first, those that come near the
  // best, and those that follow it where it is slow.
  void search(byte_count budget, std::uint64_t work) {
    if (is_close(close_permille)) return;
    std::vector<look> looks;
    for (const batch_split& split : splits_) {
      if (splits_.size() == 1) break;
      const auto seen =
          consider(split, quick_effort(work / 2 / splits_.size()), budget, nearly(least_time()));
      if (seen) looks.push_back(*seen);
    }
    if (looks.empty()) looks.push_back({&splits_.front(), any_time, budget});
    std::ranges::stable_sort(looks, {}, &look::time);
    constexpr std::size_t most_looks = 3;
    for (std::size_t i = 0; i < std::min(looks.size(), most_looks); ++i) {
      if (i > 0 && is_close(100) && looks[i].time > nearly(least_time())) continue;
      consider(*looks[i].split, full_effort(i == 0 ? work / 2 : work / 4), looks[i].aim, least_time());
    }
  }

  // What is decided for somewhat less memory, with little effort: by the split of the best plan; where there
  // is none, by whole operators, of which a plan for less may pack better.
  void descend() {
    constexpr int most_steps = 3;
    const byte_count footprint = footprint_of(p_.network, p_.costs).total;
    int steps = 0;
    for (const double ratio : ladder) {
      const auto budget = static_cast<byte_count>(static_cast<double>(footprint) / ratio);
      if (budget >= p_.budget || left_ == 0 || is_close(close_permille) || steps == most_steps) continue;
      ++steps;
      const batch_split& split = best_split_ != nullptr ? *best_split_ : splits_.front();
      consider(split, quick_effort(all_work(p_) / 64), budget, least_time());
    }
  }

  const problem& p_;
  const placer& place_;
  const search_request& by_;
  bool same_bits_;
  std::uint64_t left_;  // work
  std::string why_;
  std::vector<batch_split> splits_;
  nanoseconds computing_ = 0;  // of all operators
  std::optional<placed_plan> best_;
  const batch_split* best_split_ = nullptr;  // that the best plan of the search was decided for
};

// In the device's arena and at home in pinned memory.
std::optional<placed_plan> place_explicitly(const problem& p, memory_plan plan) {
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  const execution_plan steps = lower(unlimited, plan, packers::searched);
  placed_plan placed{std::move(plan), steps.device_arena_bytes, 0};
  if (placed.need <= p.budget) placed.time = priced_time(p, steps, 1);
  return placed;
}

}  // namespace

memory_plan plan_best(const problem& p, const placer& place, const search_request& by) {
  return best_search(p, place, by).run();
}

memory_plan plan_best(const problem& p) {
  memory_plan resident = plan_resident(p);
  if (footprint_of(p.network, p.costs).total <= p.budget) return resident;
  const auto place = [&](memory_plan plan) { return place_explicitly(p, std::move(plan)); };
  return plan_best(p, {place, place}, {"best", false, planners()});
}

}  // namespace um
