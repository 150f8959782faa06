// Chooses when swapped parts are copied: late enough to use little memory, early enough to delay nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// How much longer than forecast a copy may take without delaying anything.
struct copy_slack {
  std::int64_t percent = 0;  // in percent of the copy's time
  nanoseconds fixed = 0;     // and a fixed time for each copy
};

struct swapped_gap {
  std::uint32_t gap = 0;         // index into gaps
  bool is_just_in_time = false;  // it returns right before its next use, without slack
};

// Sets `leave_after` and `return_before` of swaps. Keeps references.
class transfer_placer {
 public:
  transfer_placer(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                  const copy_slack& late = {});

  // Places the given swaps. A part keeps its memory until its copy can have ended, so that nothing waits for
  // it. It returns as late as the link allows if all parts are to be back before their next use. Times are
  // the forecaster's without recomputations, and the slack is added to each copy. Parts `is_just_in_time` use
  // the least memory: they leave right after their last use and return right before the next.
  void place(std::span<const swapped_gap> swapped, std::vector<decision>& decisions) const;

 private:
  nanoseconds copy_time_with_slack(std::uint32_t x, lane where) const;

  const forecaster& costs_;
  const use_table& uses_;
  std::span<const gap> gaps_;
  copy_slack slack_;
  std::vector<nanoseconds> start_times_;  // per position, and one past the last: when its compute starts
};

// Places every swap among `decisions`; `in_time`: per gap.
void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions);

}  // namespace um
