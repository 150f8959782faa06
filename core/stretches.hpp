// Cuts the compute lane into stretches, each launched as one CUDA graph. Only the first step of a stretch
// waits for other lanes, and other lanes wait only for its last step.
#pragma once

#include <span>
#include <vector>

#include "core/graph.hpp"
#include "core/lower.hpp"

namespace um {

struct launch_order {
  // Per step, the steps that it still must wait for. A lane runs in order: a wait for a step covers all
  // earlier steps of that lane, and all later steps of the waiting lane.
  std::vector<last_steps> waits_for;
  std::vector<bool> is_awaited;        // steps that another step still has to wait for
  std::vector<index_range> stretches;  // steps of the compute lane; steps of other lanes may lie between
};

launch_order launch_order_of(std::span<const step> steps);

}  // namespace um
