// Calls in parts as actions: what a part needs of host memory is copied beside the part before it, what it
// makes is stored beside the one behind it.
#pragma once

#include <vector>

#include "planners/ooc_calls.hpp"

namespace um {

// A region of a tensor at home in host memory that one step takes: all that its operators touch, as one.
struct ooc_need {
  tensor_id what = 0;
  region where;
  bool fetched = false, written = false;
};
std::vector<ooc_need> needs_of(const graph& g, const std::vector<residence>& home, const ooc_step& step);

// `joined`: the lanes join where a call ends, and a part copies again what the part before it had too; else
// neither. `home` is staged or device for every tensor.
memory_plan streamed(const graph& g, std::vector<residence> home,
                     const std::vector<std::vector<ooc_step>>& calls, bool joined);

}  // namespace um
