// The compute lane cut into stretches that can be launched at once: no step within one waits for another
// lane, and no other lane waits for a step within, but the last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/index_range.hpp"
#include "core/lower.hpp"

namespace um {

struct launch_order {
  // For each step, the steps that it still has to wait for. Lanes keep their order: a wait for a step covers
  // all steps before it in that lane, and all later steps of the lane that waits.
  std::vector<last_steps> after;
  std::vector<bool> awaited;           // steps that another step still has to wait for
  std::vector<index_range> stretches;  // steps of the compute lane; steps of other lanes may lie between
};

launch_order launch_order_of(std::span<const step> steps);

}  // namespace um
