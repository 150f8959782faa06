#include "schedule/bounds/bounds.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "schedule/bounds/pass_bound.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

bool computes_in_order(const memory_plan& plan, const std::vector<compute>& order) {
  std::vector<op_id> first;
  for (const action& a : plan.actions) {
    const auto* c = std::get_if<compute>(&a);
    if (c == nullptr) continue;
    if (!is_whole(c->part)) return false;
    if (std::ranges::find(first, c->op) == first.end()) first.push_back(c->op);
  }
  return std::ranges::equal(first, order, {}, {}, &compute::op);
}

// The orders that plans of the class `whole_operators` may use.
std::vector<std::vector<compute>> whole_operator_orders(const graph& g) {
  std::vector<std::vector<compute>> all{graph_order(g)};
  for (const loop_nest& by : whole_operator_nests(g)) {
    std::vector<compute> order = make_order(g, by);
    if (std::ranges::find(all, order) == all.end()) all.push_back(std::move(order));
  }
  return all;
}

// Whether the last part of the last forward operator precedes every backward operator.
bool ends_forward_first(const graph& g, const memory_plan& plan) {
  const op_id loss = first_backward(g);
  bool backward = false;
  std::vector<std::set<box>> done(g.ops.size());
  for (const action& a : plan.actions) {
    const auto* c = std::get_if<compute>(&a);
    if (c == nullptr) continue;
    if (c->op >= loss) {
      backward = true;
      continue;
    }
    if (done[c->op].insert(c->part).second && backward) return false;
  }
  return true;
}

}  // namespace

plan_kind plan_kind_of(const graph& g, const memory_plan& plan) {
  plan_kind kind;
  std::vector<std::set<box>> done(g.ops.size());
  for (const action& a : plan.actions) {
    kind.swaps = kind.swaps || std::holds_alternative<prefetch>(a) || std::holds_alternative<evict>(a);
    const auto* c = std::get_if<compute>(&a);
    if (c == nullptr) continue;
    kind.recomputes = !done[c->op].insert(c->part).second || kind.recomputes;
  }
  const auto is_moved_by_plan = [](residence r) { return r == residence::device || r == residence::staged; };
  const bool explicit_alone = std::ranges::all_of(plan.residences, is_moved_by_plan);
  const auto moves_part = [](const action& a) {
    return std::visit(overloaded{[](const compute&) { return false; }, [](const advise&) { return false; },
                                 [](const auto& x) { return !is_whole(x.part); }},
                      a);
  };
  kind.swaps = kind.swaps || !explicit_alone;
  if (!ends_forward_first(g, plan)) return kind;
  kind.narrowest_class = plan_class::two_passes;
  const auto orders = whole_operator_orders(g);
  const bool whole =
      std::ranges::any_of(orders, [&](const auto& order) { return computes_in_order(plan, order); });
  if (explicit_alone && whole && std::ranges::none_of(plan.actions, moves_part))
    kind.narrowest_class = plan_class::whole_operators;
  return kind;
}

nanoseconds lower_bound_for(const time_bounds& b, const plan_kind& kind) {
  if (kind.narrowest_class == plan_class::any ||
      (kind.narrowest_class == plan_class::whole_operators && !b.whole_operators))
    return b.compute;
  const class_bounds& of =
      kind.narrowest_class == plan_class::whole_operators ? *b.whole_operators : b.two_passes;
  if (kind.swaps && kind.recomputes) return of.both;
  if (kind.swaps) return of.swap;
  return of.recompute;
}

time_bounds find_time_bounds(const problem& p) {
  const passes x = split_passes(p);
  time_bounds found;
  found.compute = static_cast<nanoseconds>(x.forward_time + x.backward_time);
  const class_bounds none{found.compute, found.compute, found.compute};
  found.two_passes = none;
  found.whole_operators = none;
  const bool links = p.target.link_to_device_bytes_per_s > 0 && p.target.link_to_host_bytes_per_s > 0;
  const auto orders = whole_operator_orders(p.network);
  for (const auto& [swaps, repeats, member] :
       {std::tuple{true, false, &class_bounds::swap}, std::tuple{false, true, &class_bounds::recompute},
        std::tuple{true, true, &class_bounds::both}}) {
    const allowed_moves what{swaps && links, repeats};
    pass_bound s{found.compute, {}};
    if (x.backward_time > 0) s = bound_passes(x, p.target, p.budget, what);
    found.two_passes.*member = s.min_time;
    nanoseconds whole = no_bound;
    for (const std::vector<compute>& order : orders)
      whole = std::min(whole, whole_operator_bound(p, order, what, s.prices));
    found.whole_operators.value().*member = std::max(s.min_time, whole);
  }
  // A bound for all plans of a class also holds for its subsets.
  for (class_bounds* of : {&found.two_passes, &*found.whole_operators})
    of->both = std::min({of->both, of->swap, of->recompute});
  return found;
}

}  // namespace um
