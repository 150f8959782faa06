#include <algorithm>
#include <map>
#include <utility>

#include "core/layout.hpp"
#include "planners/feature_maps.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

enum class offload : std::uint8_t { convolutions, all };

// The neighbouring operators of one layer in one pass, recognised by their names.
struct layer {
  std::string name;  // name of its forward operator
  position begin = 0, end = 0;
};

std::vector<layer> layers_of(const graph& g, const std::vector<compute>& order) {
  std::vector<layer> all;
  for (position at = 0; at < static_cast<position>(order.size()); ++at) {
    const std::string& full = g.ops[order[static_cast<std::size_t>(at)].op].name;
    std::string name = full.substr(0, full.find(".backward"));
    if (all.empty() || all.back().name != name) all.push_back({std::move(name), at, at});
    all.back().end = at + 1;
  }
  return all;
}

class vdnn_planner {
 public:
  vdnn_planner(const problem& p, std::vector<compute> order)
      : g_(p.network),
        uses_(make_use_table(g_, std::move(order))),
        gaps_(find_gaps(g_, uses_)),
        layers_(layers_of(g_, uses_.order)) {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (layers_[l].begin < uses_.backward_begin) forward_layer_by_name_.emplace(layers_[l].name, l);
    }
  }

  memory_plan plan(offload what) {
    std::vector<decision> decisions(gaps_.size());
    std::vector<std::vector<std::uint32_t>> offloaded(layers_.size());
    for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
      if (!is_layer_input(gaps_[x], what)) continue;
      decisions[x] = {gap_choice::swap, gaps_[x].last_use, gaps_[x].next_use};
      offloaded[layer_at(gaps_[x].last_use)].push_back(x);
    }
    for (const layer& l : layers_) {
      const auto forward = forward_layer_by_name_.find(l.name);
      if (l.begin < uses_.backward_begin || forward == forward_layer_by_name_.end()) continue;
      for (const std::uint32_t x : prefetches_for_layer(forward->second, offloaded))
        decisions[x].return_before = std::min(decisions[x].return_before, l.begin);
    }
    memory_plan plan = make_plan(g_, uses_, gaps_, decisions);
    add_joins(plan);
    return plan;
  }

 private:
  std::size_t layer_at(position at) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(layers_, at, {}, &layer::begin) -
                                    layers_.begin()) -
           1;
  }
  const op& op_at(position at) const { return g_.ops[uses_.order[static_cast<std::size_t>(at)].op]; }

  // Whether the gap's tensor is the input of a layer before the classifier and is offloaded after its last
  // reader in the forward pass.
  bool is_layer_input(const gap& e, offload what) const {
    const tensor& t = g_.tensors[uses_.parts[e.part].tensor];
    if (t.role != role::activation && t.role != role::input) return false;
    if (element_count(t.shape) <= t.shape.c || !spans_both_passes(g_, uses_, e) || e.producer == e.last_use)
      return false;
    for (position at = 0; at <= e.last_use; ++at) {
      if (has_kind<linear>(op_at(at))) return false;
    }
    return what == offload::all || has_kind<convolution>(op_at(e.last_use));
  }

  // Removes and returns the offloaded gaps of the nearest earlier layer that are not fetched yet. Looks no
  // further than the next convolution (findPrefetchLayer in the paper).
  std::vector<std::uint32_t> prefetches_for_layer(std::size_t l,
                                                  std::vector<std::vector<std::uint32_t>>& offloaded) const {
    while (l-- > 0) {
      if (!offloaded[l].empty()) return std::exchange(offloaded[l], {});
      if (has_kind<convolution>(op_at(layers_[l].begin))) return {};
    }
    return {};
  }

  // Makes both streams wait for each other at the end of each layer.
  void add_joins(memory_plan& plan) const {
    std::size_t now = 0;
    position next = 0;
    for (std::uint32_t i = 0; i < plan.actions.size(); ++i) {
      const action& a = plan.actions[i];
      if (next == uses_.end()) break;
      const bool begins = std::holds_alternative<compute>(a) || std::holds_alternative<prefetch>(a);
      if (begins && layer_at(next) != now) {
        now = layer_at(next);
        plan.joins.push_back(i);
      }
      next += std::holds_alternative<compute>(a) ? 1 : 0;
    }
  }

  const graph& g_;
  use_table uses_;
  std::vector<gap> gaps_;
  std::vector<layer> layers_;
  std::map<std::string, std::size_t> forward_layer_by_name_;  // index of each forward layer, by name
};

bool is_convolution(const graph& g, const compute& c) {
  return has_kind<convolution, convolution_backward_data, convolution_backward_filter>(g.ops[c.op]);
}

std::vector<compute> order_with_workspaces(const problem& p, bool fastest) {
  std::vector<compute> order = graph_order(p.network);
  for (compute& c : order) {
    if (!fastest && is_convolution(p.network, c)) c.workspace = 0;
  }
  return order;
}

memory_plan plan_vdnn(const problem& p, const std::string& name, offload what) {
  memory_plan plan = vdnn_planner(p, order_with_workspaces(p, p.knobs.at("fastest") == 1)).plan(what);
  const byte_count need = packed_bytes(p, plan);
  if (need > p.budget) throw infeasible(budget_too_small_text(p, name, need));
  return plan;
}

// Gives convolutions at positions that exceed the budget algorithms with less workspace, until the plan fits
// or none is left.
std::vector<compute> order_with_less_workspace(const problem& p, const memory_plan& plan) {
  const std::vector<byte_count> live = live_bytes(p, plan);
  std::vector<compute> order;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* c = std::get_if<compute>(&plan.actions[i]);
    if (c == nullptr) continue;
    compute& chosen = order.emplace_back(*c);
    const byte_count over = live[i] - std::min(live[i], p.budget);
    const byte_count first = cost_of(p, chosen).workspace_bytes;
    byte_count now = first;
    while (is_convolution(p.network, chosen) && now > 0 && first - now < over) {
      chosen.workspace = now - 1;
      now = cost_of(p, chosen).workspace_bytes;
    }
  }
  return order;
}

}  // namespace

memory_plan plan_vdnn_all(const problem& p) {
  return plan_vdnn(p, "vdnn_all", offload::all);
}

memory_plan plan_vdnn_conv(const problem& p) {
  return plan_vdnn(p, "vdnn_conv", offload::convolutions);
}

memory_plan plan_vdnn_dyn(const problem& p) {
  memory_plan resident = plan_resident(p);
  memory_plan least = vdnn_planner(p, order_with_workspaces(p, false)).plan(offload::all);
  const byte_count need = packed_bytes(p, least);
  if (packed_bytes(p, resident) <= p.budget) return resident;
  if (need > p.budget) throw infeasible(budget_too_small_text(p, "vdnn_dyn", need));
  for (const offload what : {offload::convolutions, offload::all}) {
    memory_plan fastest = vdnn_planner(p, order_with_workspaces(p, true)).plan(what);
    if (packed_bytes(p, fastest) <= p.budget) return fastest;
  }
  for (const offload what : {offload::convolutions, offload::all}) {
    memory_plan fastest = vdnn_planner(p, order_with_workspaces(p, true)).plan(what);
    memory_plan less = vdnn_planner(p, order_with_less_workspace(p, fastest)).plan(what);
    if (packed_bytes(p, less) <= p.budget) return less;
  }
  return least;
}

}  // namespace um
