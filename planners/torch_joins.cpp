#include "planners/torch_joins.hpp"

#include <algorithm>

namespace um {

// torch/_inductor/config.py: max_fusion_size; scheduler.py: are_long_distant_nodes.
constexpr std::size_t most_joined = 64, farthest = 64;

torch_joins::torch_joins(std::size_t nodes)
    : joined_(nodes), next_(nodes), size_(nodes), first_(nodes), last_(nodes), visited_in_(nodes) {}

void torch_joins::part(torch_id v, std::size_t place) {
  joined_[v] = next_[v] = v;
  size_[v] = 1;
  first_[v] = last_[v] = place;
}

torch_id torch_joins::representative(torch_id v) {
  while (joined_[v] != v) {
    joined_[v] = joined_[joined_[v]];
    v = joined_[v];
  }
  return v;
}

bool torch_joins::are_near(torch_id a, torch_id b) {
  a = representative(a), b = representative(b);
  return std::max(last_[a], last_[b]) - std::min(first_[a], first_[b]) <= farthest;
}

void torch_joins::join(torch_id a, torch_id b) {
  a = representative(a), b = representative(b);
  if (a == b || size_[a] + size_[b] > most_joined) return;
  first_[a] = std::min(first_[a], first_[b]);
  last_[a] = std::max(last_[a], last_[b]);
  size_[a] += size_[b];
  joined_[b] = a;
  std::swap(next_[a], next_[b]);
}

}  // namespace um
