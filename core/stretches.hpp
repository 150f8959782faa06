// Cuts the compute lane into stretches, each launched as one CUDA graph: only the first step of a stretch
// waits for other lanes, and other lanes wait for its last step only.
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
