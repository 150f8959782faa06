// Plans for a training step that PyTorch runs as two compiled graphs. Parameters stay on the device,
// the order is PyTorch's, and each tensor of the forward graph is either saved for the backward
// graph or computed there again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planners/torch_walk.hpp"

namespace um {

struct torch_plan {
  std::vector<torch_id> saved;           // sent from the forward to the backward graph, without residents
  std::vector<torch_offload> offloaded;  // those of `saved` that go to the host and back
  std::vector<torch_id> recomputed;      // nodes that the forward graph runs and the backward graph as well
  std::vector<torch_id> stored;          // nodes of the backward graph that Inductor has to be told to store
  torch_estimate estimate;
  std::int64_t evaluations = 0;
};

// Evaluates choices of saved tensors, O(nodes + edges) each. One that comes to the same as one before takes a
// part of that.
class torch_model {
 public:
  torch_model(const torch_step& step, std::int64_t budget);
  ~torch_model();

  // The excess of estimates is above this from now on.
  void aim_at(std::int64_t budget);
  // Copies of offloaded tensors may take `times` as long as forecast before anything waits for them.
  void leave_time(double times);
  // What becomes of v if the backward graph needs it.
  torch_estimate evaluate(const std::vector<torch_fate>& fates);
  // The plan that the last evaluation was of.
  torch_plan plan();
  // Of what the choice saves, what the backward graph reads.
  const std::vector<torch_id>& used_of(const std::vector<torch_fate>& fates);
  // Nodes that all this has gone over.
  std::int64_t work() const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

// No plan has a lower peak: what stays, and the largest library call with what it reads and writes, or all
// that the backward graph returns. Bytes.
std::int64_t least_torch_peak(const torch_step& step);

// The fastest choice found whose peak is at most `budget` bytes, or the one with the least peak.
// `begin`: a choice to start from as well, such as PyTorch's own. `work`: a limit for each of
// eight searches, in nodes gone over, about 12 million a second. The plan depends on nothing else.
torch_plan plan_torch(const torch_step& step, std::int64_t budget, const std::vector<torch_id>& begin,
                      std::int64_t work);

}  // namespace um
