#include "planners/torch_moves.hpp"

#include <map>

namespace um {

torch_moves::torch_moves(const torch_step& step)
    : step_(step), sources_(step.nodes.size()), readers_(step.nodes.size()) {
  for (const torch_node& node : step.nodes) {
    if (node.can_run_forward) forward_bytes_ += node.bytes;
  }
  std::map<int, std::vector<torch_id>> by_family;
  for (torch_id v = 0; v < step.nodes.size(); ++v) {
    if (is_candidate(v)) {
      candidates.push_back(v);
      by_family[step.nodes[v].family].push_back(v);
    } else if (step.nodes[v].can_run_forward && step.nodes[v].bytes > 0 && !step.nodes[v].is_widening) {
      small_tensors.push_back(v);
    }
  }
  for (auto& [id, members] : by_family) families.push_back(std::move(members));
  find_neighbours();
  add_families();
  family_move_count = moves.size();
  for (const torch_id v : candidates) add_moves({v});
}

bool torch_moves::is_candidate(torch_id v) const {
  constexpr std::int64_t small_share =
      20000;  // a tensor is small if it has less than one part in this many of the forward graph's bytes
  const torch_node& node = step_.nodes[v];
  return node.can_run_forward && node.is_repeatable && !node.is_widening && node.kind != torch_kind::view &&
         node.kind != torch_kind::input && node.bytes > forward_bytes_ / small_share;
}

void torch_moves::find_neighbours() {
  for (const torch_id v : candidates) {
    std::vector<torch_id> open = step_.nodes[v].inputs;
    while (!open.empty()) {
      const torch_id u = open.back();
      open.pop_back();
      if (is_candidate(u)) {
        sources_[v].push_back(u);
        readers_[u].push_back(v);
      } else if (const torch_node& node = step_.nodes[u];
                 node.kind == torch_kind::view || node.kind == torch_kind::item || node.is_widening) {
        open.push_back(step_.nodes[u].inputs[0]);
      }
    }
  }
}

std::vector<torch_id> torch_moves::neighbours_of(const std::vector<torch_id>& nodes, bool sources) const {
  std::vector<torch_id> found;
  for (const torch_id v : nodes) {
    const auto& next = sources ? sources_[v] : readers_[v];
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

void torch_moves::add_moves(const std::vector<torch_id>& nodes) {
  moves.push_back({{}, nodes, {}});
  moves.push_back({nodes, {}, {}});
  if (step_.link_bytes_per_ns > 0) moves.push_back({{}, {}, nodes});
  for (const bool sources : {true, false}) {
    const auto next = neighbours_of(nodes, sources);
    if (next.empty()) continue;
    moves.push_back({next, nodes, {}});
    moves.push_back({nodes, next, {}});
  }
}

// Adds moves of each family, of its halves, and of every second, third and fourth of its members: to save
// them, to recompute them, or to exchange them with their neighbours.
void torch_moves::add_families() {
  for (const auto& family : families) {
    add_moves(family);
    if (family.size() < 4) continue;
    for (std::size_t stride = 2; stride <= 4; ++stride) {
      std::vector<torch_id> subset;
      for (std::size_t i = stride - 1; i < family.size(); i += stride) subset.push_back(family[i]);
      add_moves(subset);
    }
    const auto middle = family.begin() + static_cast<std::ptrdiff_t>(family.size() / 2);
    add_moves({family.begin(), middle});
    add_moves({middle, family.end()});
  }
}

}  // namespace um
