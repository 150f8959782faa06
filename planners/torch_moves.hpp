// The changes that a search for a plan tries.
#pragma once

#include <vector>

#include "planners/torch_step.hpp"

namespace um {

// Nodes that are saved, that no longer are, and that are offloaded, all at once.
struct torch_move {
  std::vector<torch_id> on, off, out;
};

// What a search may decide about a step. Small tensors are saved wherever the backward graph needs them.
class torch_moves {
 public:
  explicit torch_moves(const torch_step& step);

  std::vector<torch_id> candidates, small;
  std::vector<std::vector<torch_id>> families;  // of candidates
  std::vector<torch_move> all;                  // the first `of_families` change families
  std::size_t of_families = 0;

 private:
  bool is_candidate(torch_id v) const;
  void find_neighbours();
  std::vector<torch_id> around(const std::vector<torch_id>& nodes, bool sources) const;
  void add(const std::vector<torch_id>& nodes);
  void add_families();

  const torch_step& step_;
  std::int64_t all_bytes_ = 0;
  std::vector<std::vector<torch_id>> sources_, readers_;  // candidates that a candidate reads, that read it
};

}  // namespace um
