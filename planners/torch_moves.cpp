#include "planners/torch_moves.hpp"

#include <map>

namespace um {

torch_moves::torch_moves(const torch_step& step)
    : step_(step), sources_(step.nodes.size()), readers_(step.nodes.size()) {
  for (const torch_node& node : step.nodes) {
    if (node.forward) all_bytes_ += node.bytes;
  }
  std::map<int, std::vector<torch_id>> by_family;
  for (torch_id v = 0; v < step.nodes.size(); ++v) {
    if (is_candidate(v)) {
      candidates.push_back(v);
      by_family[step.nodes[v].family].push_back(v);
    } else if (step.nodes[v].forward && step.nodes[v].bytes > 0 && !step.nodes[v].widens) {
      small.push_back(v);
    }
  }
  for (auto& [id, members] : by_family) families.push_back(std::move(members));
  find_neighbours();
  add_families();
  of_families = all.size();
  for (const torch_id v : candidates) add({v});
}

bool torch_moves::is_candidate(torch_id v) const {
  constexpr std::int64_t small_share = 20000;  // one part in that many of all tensors' bytes
  const torch_node& node = step_.nodes[v];
  return node.forward && node.repeatable && !node.widens && node.kind != torch_kind::view &&
         node.kind != torch_kind::input && node.bytes > all_bytes_ / small_share;
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
                 node.kind == torch_kind::view || node.kind == torch_kind::item || node.widens) {
        open.push_back(step_.nodes[u].inputs[0]);
      }
    }
  }
}

std::vector<torch_id> torch_moves::around(const std::vector<torch_id>& nodes, bool sources) const {
  std::vector<torch_id> found;
  for (const torch_id v : nodes) {
    const auto& next = sources ? sources_[v] : readers_[v];
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

void torch_moves::add(const std::vector<torch_id>& nodes) {
  all.push_back({{}, nodes, {}});
  all.push_back({nodes, {}, {}});
  if (step_.link_bytes_per_ns > 0) all.push_back({{}, {}, nodes});
  for (const bool sources : {true, false}) {
    const auto next = around(nodes, sources);
    if (next.empty()) continue;
    all.push_back({next, nodes, {}});
    all.push_back({nodes, next, {}});
  }
}

// Each family as a whole, its halves, every second, third and fourth of its members; saved, no longer saved,
// or saved in place of their neighbours.
void torch_moves::add_families() {
  for (const auto& family : families) {
    add(family);
    if (family.size() < 4) continue;
    for (std::size_t stride = 2; stride <= 4; ++stride) {
      std::vector<torch_id> part;
      for (std::size_t i = stride - 1; i < family.size(); i += stride) part.push_back(family[i]);
      add(part);
    }
    const auto middle = family.begin() + static_cast<std::ptrdiff_t>(family.size() / 2);
    add({family.begin(), middle});
    add({middle, family.end()});
  }
}

}  // namespace um
