// Turns calls that are divided into parts into actions of a plan. Inputs of a part are copied to the device
// during the previous part, its results to the host during the next one.
#pragma once

#include <vector>

#include "planners/ooc_calls.hpp"

namespace um {

// The region of a staged tensor that the operators of one step touch.
struct ooc_need {
  tensor_id what = 0;
  region where;
  bool is_fetched = false, is_written = false;  // copied to the device before the step; to the host after it
};
std::vector<ooc_need> needs_of(const graph& g, const std::vector<residence>& home, const ooc_step& step);

// `waits_at_call_end`: the lanes wait for each other at the end of each call, and each part copies again what
// it shares with the previous part. `home`: staged or device for every tensor.
memory_plan stream_calls(const graph& g, std::vector<residence> home,
                         const std::vector<std::vector<ooc_step>>& calls, bool waits_at_call_end);

}  // namespace um
