#include "planners/torch_joins.hpp"

#include <algorithm>

namespace um {

// Limits of torch/_inductor: config.py max_fusion_size; scheduler.py are_long_distant_nodes.
constexpr std::size_t max_group_nodes = 64, max_distance = 64;

fusion_groups::fusion_groups(std::size_t nodes)
    : parent_(nodes),
      next_member_(nodes),
      size_(nodes),
      first_place_(nodes),
      last_place_(nodes),
      last_search_(nodes) {}

void fusion_groups::make_group(torch_id v, std::size_t place) {
  parent_[v] = next_member_[v] = v;
  size_[v] = 1;
  first_place_[v] = last_place_[v] = place;
}

torch_id fusion_groups::representative(torch_id v) {
  while (parent_[v] != v) {
    parent_[v] = parent_[parent_[v]];
    v = parent_[v];
  }
  return v;
}

bool fusion_groups::are_near(torch_id a, torch_id b) {
  a = representative(a), b = representative(b);
  return std::max(last_place_[a], last_place_[b]) - std::min(first_place_[a], first_place_[b]) <=
         max_distance;
}

void fusion_groups::merge(torch_id a, torch_id b) {
  a = representative(a), b = representative(b);
  if (a == b || size_[a] + size_[b] > max_group_nodes) return;
  first_place_[a] = std::min(first_place_[a], first_place_[b]);
  last_place_[a] = std::max(last_place_[a], last_place_[b]);
  size_[a] += size_[b];
  parent_[b] = a;
  std::swap(next_member_[a], next_member_[b]);
}

}  // namespace um
