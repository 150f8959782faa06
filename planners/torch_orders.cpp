#include "planners/torch_orders.hpp"

#include <algorithm>

namespace um {

torch_wiring::torch_wiring(const torch_step& s)
    : step(s),
      root(s.nodes.size()),
      sources(s.nodes.size()),
      readers(s.nodes.size()),
      items(s.nodes.size()),
      forward_result(s.nodes.size()),
      backward_result(s.nodes.size()),
      first_backward(static_cast<torch_id>(s.nodes.size())) {
  for (torch_id v = 0; v < s.nodes.size(); ++v) {
    const torch_node& node = at(v);
    root[v] = node.kind == torch_kind::view ? root[node.inputs[0]] : v;
    forward_result[root[v]] |= node.forward_result;
    backward_result[root[v]] |= node.backward_result;
    if (node.kind == torch_kind::view || node.kind == torch_kind::input) continue;
    computed.push_back(v);
    for (const torch_id u : node.inputs) {
      const torch_id from = root[u];
      if (std::ranges::find(sources[v], from) != sources[v].end()) continue;
      sources[v].push_back(from);
      if (node.kind != torch_kind::item) readers[from].push_back(v);
      if (at(from).kind == torch_kind::input && !at(from).resident)
        first_backward = std::min(first_backward, v);
    }
    if (node.kind == torch_kind::item) items[node.inputs[0]].push_back(v);
  }
}

torch_orders::torch_orders(const torch_wiring& w)
    : wiring(w),
      is_saved(w.root.size()),
      is_offloaded(w.root.size()),
      needed_(w.root.size()),
      seen_(w.root.size()) {}

void torch_orders::choose(const std::vector<torch_fate>& fates) {
  need_backward(fates);
  order_forward();
  order_backward();
}

bool torch_orders::runs_backward(torch_id v) const {
  return needed_[v] && !is_saved[v] && wiring.at(v).kind != torch_kind::input;
}

void torch_orders::need_backward(const std::vector<torch_fate>& fates) {
  std::ranges::fill(needed_, 0);
  std::ranges::fill(is_saved, 0);
  std::ranges::fill(is_offloaded, 0);
  used.clear();
  const auto need = [&](torch_id v) {
    if (needed_[v]) return;
    needed_[v] = 1;
    const torch_node& node = wiring.at(v);
    if (node.kind == torch_kind::input) return;
    if (node.forward && node.bytes > 0 && (fates[v] != torch_fate::again || !node.repeatable)) {
      is_saved[v] = 1;
      is_offloaded[v] = fates[v] == torch_fate::offloaded && !wiring.forward_result[v];
      used.push_back(v);
      return;
    }
    open_.push_back(v);
  };
  for (const torch_id v : wiring.computed) {
    if (wiring.backward_result[v]) need(v);
  }
  while (!open_.empty()) {
    const torch_id v = open_.back();
    open_.pop_back();
    for (const torch_id u : wiring.sources[v]) need(u);
  }
}

// PyTorch's reordering_to_mimic_autograd_engine (torch/_functorch/partitioners.py): what is computed
// again comes right before the first backward node that needs it.
void torch_orders::order_backward() {
  backward.clear();
  std::ranges::fill(seen_, 0);
  for (const torch_id v : wiring.computed) {
    if (v < wiring.first_backward || seen_[v] || !runs_backward(v)) continue;
    const auto begin = static_cast<std::ptrdiff_t>(backward.size());
    open_.assign(1, v);
    while (!open_.empty()) {
      const torch_id u = open_.back();
      open_.pop_back();
      if (seen_[u] || !runs_backward(u)) continue;
      seen_[u] = 1;
      backward.push_back(u);
      for (const torch_id w : wiring.sources[u]) open_.push_back(w);
    }
    std::sort(backward.begin() + begin, backward.end());
  }
}

void torch_orders::order_forward() {
  forward.clear();
  std::ranges::fill(seen_, 0);
  open_ = used;
  for (const torch_id v : wiring.computed) {
    if (wiring.forward_result[v]) open_.push_back(v);
  }
  while (!open_.empty()) {
    const torch_id v = open_.back();
    open_.pop_back();
    if (seen_[v] || wiring.at(v).kind == torch_kind::input) continue;
    seen_[v] = 1;
    for (const torch_id u : wiring.sources[v]) open_.push_back(u);
  }
  for (const torch_id v : wiring.computed) {
    if (seen_[v]) forward.push_back(v);
  }
}

}  // namespace um
