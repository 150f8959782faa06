// When what is swapped travels: late enough to take little room, early enough to be there in time.
#pragma once

#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// How much longer than forecast a copy may take without anybody waiting for it.
struct allowance {
  std::int64_t percent = 0;  // of its time
  nanoseconds each = 0;
};

// Sets `leave` and `back` of every swap. Each keeps its room until its copy can be over, so that nobody
// waits for it, and comes back as late as the link allows if all are to be there before their next use;
// computes take what the forecaster says, nothing being computed again, copies as much and their allowance.
// Those `in_time` take the least room: they leave right behind their last use and come back right before the
// next.
void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions,
                     const allowance& late = {});

}  // namespace um
