// Stored nodes of one graph that share a kernel.
#pragma once

#include <vector>

#include "planners/torch_orders.hpp"

namespace um {

class torch_joins {
 public:
  explicit torch_joins(std::size_t nodes);

  // v shares a kernel with no other node. `place`: how many stored nodes come before it.
  void part(torch_id v, std::size_t place);
  // Unless a kernel has too many nodes then.
  void join(torch_id a, torch_id b);
  // The same node for all that share a kernel.
  torch_id representative(torch_id v);
  // Inductor fuses no readers of the same memory that are far apart.
  bool are_near(torch_id a, torch_id b);
  // Whether a's kernel needs b's. makers_of(v): the nodes whose results v reads.
  bool needs(torch_id a, torch_id b, const auto& makers_of);

 private:
  std::vector<torch_id> joined_, next_;  // next_: around what is joined
  std::vector<std::size_t> size_, first_, last_, visited_in_;
  std::size_t visit_ = 0;
  std::vector<torch_id> open_;
};

bool torch_joins::needs(torch_id a, torch_id b, const auto& makers_of) {
  b = representative(b);
  const std::size_t earliest = first_[b];
  ++visit_;
  open_.assign(1, representative(a));
  while (!open_.empty()) {
    const torch_id group = open_.back();
    open_.pop_back();
    torch_id member = group;
    do {
      for (const torch_id maker : makers_of(member)) {
        const torch_id from = representative(maker);
        if (from == b) return true;
        if (visited_in_[from] == visit_ || last_[from] < earliest) continue;
        visited_in_[from] = visit_;
        open_.push_back(from);
      }
      member = next_[member];
    } while (member != group);
  }
  return false;
}

}  // namespace um
