// When what is swapped travels: late enough to take little room, early enough to be there in time.
#pragma once

#include <vector>

#include "schedule/forecast.hpp"

namespace um {

// Sets `leave` and `back` of every swap that is not `in_time`: each leaves right behind its last use and
// comes back as late as the link allows if all are to be there before their next use, computes taking what
// the forecaster says, nothing being computed again. Those `in_time` come back right before their next use.
void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions);

}  // namespace um
