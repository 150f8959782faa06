// Cuts the compute lane into stretches: runs of steps that are launched as one CUDA graph. Only the first
// step of a stretch waits for other lanes, and other lanes wait only for its last step.
#pragma once

#include <span>
#include <vector>

#include "core/graph.hpp"
#include "core/lower.hpp"

namespace um {

struct stretch_cut {
  // Per step, the steps of each lane that it must wait for, without those that an earlier wait of its lane
  // covers. A lane runs in order, so a wait for a step covers all earlier steps of that lane.
  std::vector<last_steps> waits_for;
  std::vector<bool> is_awaited;  // per step: whether a step of another lane waits for it
  std::vector<index_range>
      stretches;  // first and last compute step of each; steps of other lanes may lie between
};

stretch_cut cut_into_stretches(std::span<const step> steps);

}  // namespace um
