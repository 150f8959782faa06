// Groups of stored nodes of one graph that share a kernel (union-find).
#pragma once

#include <vector>

#include "planners/torch_orders.hpp"

namespace um {

class fusion_groups {
 public:
  explicit fusion_groups(std::size_t nodes);

  // Makes a group of v alone. `place`: number of stored nodes before it.
  void make_group(torch_id v, std::size_t place);
  // Merges the groups of a and b, unless the kernel would have too many nodes.
  void merge(torch_id a, torch_id b);
  // The same node for all members of a group.
  torch_id representative(torch_id v);
  // Whether two groups are close enough: Inductor does not fuse distant readers of the same memory.
  bool are_near(torch_id a, torch_id b);
  // Whether a's group depends on b's. makers_of(v): the nodes whose results v reads.
  bool depends_on(torch_id a, torch_id b, const auto& makers_of);

 private:
  std::vector<torch_id> parent_, next_member_;  // next_member_: circular list of a group
  std::vector<std::size_t> size_, first_place_, last_place_, last_search_;  // per representative of a group
  std::size_t search_count_ = 0;
  std::vector<torch_id> worklist_;
};

bool fusion_groups::depends_on(torch_id a, torch_id b, const auto& makers_of) {
  b = representative(b);
  const std::size_t earliest = first_place_[b];
  ++search_count_;
  worklist_.assign(1, representative(a));
  while (!worklist_.empty()) {
    const torch_id group = worklist_.back();
    worklist_.pop_back();
    torch_id member = group;
    do {
      for (const torch_id producer : makers_of(member)) {
        const torch_id from = representative(producer);
        if (from == b) return true;
        if (last_search_[from] == search_count_ || last_place_[from] < earliest) continue;
        last_search_[from] = search_count_;
        worklist_.push_back(from);
      }
      member = next_member_[member];
    } while (member != group);
  }
  return false;
}

}  // namespace um
