#include "planners/torch_orders.hpp"

#include <algorithm>

namespace um {

torch_dataflow::torch_dataflow(const torch_step& s)
    : step(s),
      memory_owner(s.nodes.size()),
      sources(s.nodes.size()),
      readers(s.nodes.size()),
      items(s.nodes.size()),
      is_forward_result(s.nodes.size()),
      is_backward_result(s.nodes.size()),
      first_backward(static_cast<torch_id>(s.nodes.size())) {
  for (torch_id v = 0; v < s.nodes.size(); ++v) {
    const torch_node& node = at(v);
    memory_owner[v] = node.kind == torch_kind::view ? memory_owner[node.inputs[0]] : v;
    is_forward_result[memory_owner[v]] |= node.is_forward_result;
    is_backward_result[memory_owner[v]] |= node.is_backward_result;
    if (node.kind == torch_kind::view || node.kind == torch_kind::input) continue;
    computed.push_back(v);
    for (const torch_id u : node.inputs) {
      const torch_id from = memory_owner[u];
      if (std::ranges::find(sources[v], from) != sources[v].end()) continue;
      sources[v].push_back(from);
      if (node.kind != torch_kind::item) readers[from].push_back(v);
      if (at(from).kind == torch_kind::input && !at(from).is_resident)
        first_backward = std::min(first_backward, v);
    }
    if (node.kind == torch_kind::item) items[node.inputs[0]].push_back(v);
  }
}

torch_orders::torch_orders(const torch_dataflow& w)
    : dataflow(w),
      is_saved(w.memory_owner.size()),
      is_offloaded(w.memory_owner.size()),
      needed_(w.memory_owner.size()),
      visited_(w.memory_owner.size()) {}

void torch_orders::set_fates(const std::vector<torch_fate>& fates) {
  find_needed(fates);
  order_forward();
  order_backward();
}

bool torch_orders::runs_in_backward(torch_id v) const {
  return needed_[v] && !is_saved[v] && dataflow.at(v).kind != torch_kind::input;
}

void torch_orders::find_needed(const std::vector<torch_fate>& fates) {
  std::ranges::fill(needed_, 0);
  std::ranges::fill(is_saved, 0);
  std::ranges::fill(is_offloaded, 0);
  used_saved.clear();
  const auto need = [&](torch_id v) {
    if (needed_[v]) return;
    needed_[v] = 1;
    const torch_node& node = dataflow.at(v);
    if (node.kind == torch_kind::input) return;
    if (node.can_run_forward && node.bytes > 0 &&
        (fates[v] != torch_fate::recomputed || !node.is_repeatable)) {
      is_saved[v] = 1;
      is_offloaded[v] = fates[v] == torch_fate::offloaded && !dataflow.is_forward_result[v];
      used_saved.push_back(v);
      return;
    }
    worklist_.push_back(v);
  };
  for (const torch_id v : dataflow.computed) {
    if (dataflow.is_backward_result[v]) need(v);
  }
  while (!worklist_.empty()) {
    const torch_id v = worklist_.back();
    worklist_.pop_back();
    for (const torch_id u : dataflow.sources[v]) need(u);
  }
}

// As PyTorch's reordering_to_mimic_autograd_engine (torch/_functorch/partitioners.py): recomputed nodes run
// right before the first backward node that needs them.
void torch_orders::order_backward() {
  backward.clear();
  std::ranges::fill(visited_, 0);
  for (const torch_id v : dataflow.computed) {
    if (v < dataflow.first_backward || visited_[v] || !runs_in_backward(v)) continue;
    const auto begin = static_cast<std::ptrdiff_t>(backward.size());
    worklist_.assign(1, v);
    while (!worklist_.empty()) {
      const torch_id u = worklist_.back();
      worklist_.pop_back();
      if (visited_[u] || !runs_in_backward(u)) continue;
      visited_[u] = 1;
      backward.push_back(u);
      for (const torch_id w : dataflow.sources[u]) worklist_.push_back(w);
    }
    std::sort(backward.begin() + begin, backward.end());
  }
}

void torch_orders::order_forward() {
  forward.clear();
  std::ranges::fill(visited_, 0);
  worklist_ = used_saved;
  for (const torch_id v : dataflow.computed) {
    if (dataflow.is_forward_result[v]) worklist_.push_back(v);
  }
  while (!worklist_.empty()) {
    const torch_id v = worklist_.back();
    worklist_.pop_back();
    if (visited_[v] || dataflow.at(v).kind == torch_kind::input) continue;
    visited_[v] = 1;
    for (const torch_id u : dataflow.sources[v]) worklist_.push_back(u);
  }
  for (const torch_id v : dataflow.computed) {
    if (visited_[v]) forward.push_back(v);
  }
}

}  // namespace um
