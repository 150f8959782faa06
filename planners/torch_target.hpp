// Plans for a training step that PyTorch runs as two compiled graphs. Parameters stay on the device and the
// order is PyTorch's. Each tensor of the forward graph is saved for the backward graph, offloaded, or
// recomputed there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planners/torch_walk.hpp"

namespace um {

struct torch_plan {
  std::vector<torch_id> saved;  // passed from the forward to the backward graph, without resident tensors
  std::vector<torch_offload> offloaded;  // those of `saved` that are copied to the host and back
  std::vector<torch_id> recomputed;      // forward nodes that the backward graph runs again
  std::vector<torch_id> stored;          // backward nodes that Inductor must be told to store
  torch_estimate estimate;
  std::int64_t evaluations = 0;
};

// Estimates the memory and time of choices of fates, in O(nodes + edges) each; less for a choice that equals
// an earlier one.
class torch_model {
 public:
  torch_model(const torch_step& step, std::int64_t budget);
  ~torch_model();

  // Later estimates count as excess what is above this budget.
  void set_budget(std::int64_t budget);
  // Plans copies so that none delays a kernel even if all take this many times as long as forecast.
  void set_copy_safety_factor(double safety_factor);
  // fates[v]: how the backward graph gets v if it needs it.
  torch_estimate evaluate(const std::vector<torch_fate>& fates);
  // The plan of the last evaluation.
  torch_plan plan();
  // The saved tensors of a choice that the backward graph reads.
  const std::vector<torch_id>& used_saved(const std::vector<torch_fate>& fates);
  // Number of nodes visited so far.
  std::int64_t work() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

// Lower bound in bytes on the peak of every plan: bytes that stay, plus the larger of the largest library
// call with all its operands and all results of the backward graph.
std::int64_t torch_peak_lower_bound(const torch_step& step);

// The fastest choice found whose peak is at most `budget` bytes, or the one with the least peak.
// `begin`: a choice to start from as well, such as PyTorch's own. `work`: a limit for each of
// eight searches, in nodes gone over, about 12 million a second; they end earlier when a
// fifteenth of it makes the plan less than 0.1 % faster. The plan depends on nothing else.
torch_plan plan_torch(const torch_step& step, std::int64_t budget, const std::vector<torch_id>& begin,
                      std::int64_t work);

}  // namespace um
