#include "planners/best_polish.hpp"

#include <algorithm>
#include <array>

namespace um {
namespace {

constexpr std::array all_treatments{treatment::keep,
                                    treatment::swap,
                                    treatment::recompute,
                                    treatment::recompute_and_keep,
                                    treatment::swap_just_in_time,
                                    treatment::swap_back_late};

// A plan is not placed if its forecast is slower by more than one part in this many.
constexpr nanoseconds forecast_tolerance = 50;

class plan_polisher {
 public:
  plan_polisher(search_space& of, const placer& place, byte_count budget, placed_decisions from,
                std::uint64_t work)
      : of_(of),
        place_(place),
        budget_(budget),
        current_(std::move(from)),
        placings_left_(work / work_of_placing(of)) {
    evaluation e = of.memory_of(current_.treatments, budget);
    of.add_time(e);
    forecast_ =
        std::max(e.forecast.time, forecast_time(of, current_.decisions, budget).value_or(e.forecast.time));
  }

  placed_decisions run() {
    while (change_one() || exchange_two() || shift_copies()) {
    }
    return std::move(current_);
  }

 private:
  bool change_one() {
    bool better = false;
    for (std::size_t c = 0; c < current_.treatments.size(); ++c) {
      for (const treatment how : all_treatments) better = try_changes({{c, how}}) || better;
    }
    return better;
  }

  // Keeps one class that was not kept, and treats a kept one otherwise.
  bool exchange_two() {
    for (std::size_t c = 0; c < current_.treatments.size(); ++c) {
      if (current_.treatments[c] == treatment::keep) continue;
      for (std::size_t other = 0; other < current_.treatments.size(); ++other) {
        if (other == c || current_.treatments[other] != treatment::keep) continue;
        for (const treatment how : all_treatments) {
          if (how != treatment::keep && try_changes({{c, treatment::keep}, {other, how}})) return true;
        }
      }
    }
    return false;
  }

  using change = std::pair<std::size_t, treatment>;
  bool try_changes(std::initializer_list<change> changes) {
    std::vector<treatment> treatments = current_.treatments;
    for (const auto& [c, how] : changes) {
      if (placings_left_ == 0 || treatments[c] == how || !of_.allows(c, how)) return false;
      treatments[c] = how;
    }
    evaluation e = of_.memory_of(treatments, budget_);
    if (e.min_time >= current_.placed.time) return false;
    if (e.excess == 0) of_.add_time(e);
    return e.excess == 0 && e.forecast.time <= forecast_ + forecast_ / forecast_tolerance &&
           accept_if_faster(treatments, of_.decisions_for(treatments, budget_), e.forecast.time);
  }

  // Tries to move each single copy, out and back, in either direction: by one position, by two, by four and
  // so on. A copy that a recomputation waits for is often far from where it should be.
  bool shift_copies() {
    bool better = false;
    for (std::size_t x = 0; x < current_.decisions.size(); ++x) {
      if (current_.decisions[x].choice != gap_choice::swap) continue;
      const gap& e = of_.gaps()[x];
      for (position by = 1; by <= e.next_use - e.last_use; by = by > 0 ? -by : -2 * by) {
        for (position decision::* when : {&decision::leave_after, &decision::return_before}) {
          decision d = current_.decisions[x];
          d.*when += by;
          if (placings_left_ == 0 || d.leave_after < e.last_use || d.return_before <= d.leave_after ||
              e.next_use < d.return_before)
            continue;
          std::vector<decision> shifted = current_.decisions;
          shifted[x] = d;
          better = try_copy_times(current_.treatments, shifted, forecast_ + forecast_ / forecast_tolerance) ||
                   better;
        }
      }
    }
    return better;
  }

  bool try_copy_times(const std::vector<treatment>& treatments, const std::vector<decision>& decisions,
                      nanoseconds max_time) {
    const std::optional<nanoseconds> time = forecast_time(of_, decisions, budget_);
    return time && *time < max_time && accept_if_faster(treatments, decisions, *time);
  }

  bool accept_if_faster(const std::vector<treatment>& treatments, const std::vector<decision>& decisions,
                        nanoseconds forecast) {
    if (placings_left_ == 0) return false;
    --placings_left_;
    std::optional<placed_plan> placed = place_.place_decided(of_.plan(decisions), budget_);
    if (!placed || placed->device_bytes > budget_ || placed->time >= current_.placed.time) return false;
    current_ = {treatments, decisions, std::move(*placed)};
    forecast_ = forecast;
    return true;
  }

  search_space& of_;
  const placer& place_;
  byte_count budget_;
  placed_decisions current_;
  nanoseconds forecast_ = 0;     // time of its decisions
  std::uint64_t placings_left_;  // number of plans that may still be placed
};

}  // namespace

std::uint64_t work_of_placing(const search_space& of) {
  constexpr std::uint64_t of_a_compute = 5000;
  return of_a_compute * of.uses().order.size();
}

placed_decisions polish(search_space& of, const placer& place, byte_count budget, placed_decisions from,
                        std::uint64_t work) {
  return plan_polisher(of, place, budget, std::move(from), work).run();
}

}  // namespace um
