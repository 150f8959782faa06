// The changes of tensors' fates that a search tries.
#pragma once

#include <vector>

#include "planners/torch_step.hpp"

namespace um {

// A change of fates: nodes to save, nodes to recompute, nodes to offload.
struct torch_move {
  std::vector<torch_id> save, recompute, offload;
};

// The moves of a step. Small tensors are always saved where the backward graph needs them.
class torch_moves {
 public:
  explicit torch_moves(const torch_step& step);

  std::vector<torch_id> candidates, small_tensors;
  std::vector<std::vector<torch_id>> families;  // candidates by torch_node::family
  std::vector<torch_move>
      moves;  // the first `family_move_count` of them change whole families or parts of them
  std::size_t family_move_count = 0;

 private:
  bool is_candidate(torch_id v) const;
  void find_neighbours();
  std::vector<torch_id> neighbours_of(const std::vector<torch_id>& nodes, bool sources) const;
  void add_moves(const std::vector<torch_id>& nodes);
  void add_families();

  const torch_step& step_;
  std::int64_t forward_bytes_ = 0;
  std::vector<std::vector<torch_id>> sources_,
      readers_;  // per candidate: the candidates that it reads; that read it
};

}  // namespace um
