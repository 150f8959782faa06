#include "schedule/bounds/bounds.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "schedule/bounds/pass_bound.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

bool is_first_order(const memory_plan& plan, const std::vector<compute>& order) {
  std::vector<op_id> first;
  for (const action& a : plan.actions) {
    const auto* c = std::get_if<compute>(&a);
    if (c == nullptr) continue;
    if (!is_whole(c->part)) return false;
    if (std::ranges::find(first, c->what) == first.end()) first.push_back(c->what);
  }
  return std::ranges::equal(first, order, {}, {}, &compute::what);
}

// Orders of whole operators that plans have.
std::vector<std::vector<compute>> whole_orders(const graph& g) {
  std::vector<std::vector<compute>> all{in_order(g)};
  std::vector<compute> late = order_of(g, {1, {}, large_gradients(g)});
  if (late != all.front()) all.push_back(std::move(late));
  return all;
}

// No backward operator before the last part of the last forward operator.
bool ends_forward_first(const graph& g, const memory_plan& plan) {
  const op_id loss = first_backward(g);
  bool backward = false;
  std::vector<std::set<box>> done(g.ops.size());
  for (const action& a : plan.actions) {
    const auto* c = std::get_if<compute>(&a);
    if (c == nullptr) continue;
    if (c->what >= loss) {
      backward = true;
      continue;
    }
    if (done[c->what].insert(c->part).second && backward) return false;
  }
  return true;
}

}  // namespace

plan_kind kind_of(const graph& g, const memory_plan& plan) {
  plan_kind kind;
  std::vector<std::set<box>> done(g.ops.size());
  for (const action& a : plan.actions) {
    kind.swaps = kind.swaps || std::holds_alternative<prefetch>(a) || std::holds_alternative<evict>(a);
    const auto* c = std::get_if<compute>(&a);
    if (c == nullptr) continue;
    kind.repeats = !done[c->what].insert(c->part).second || kind.repeats;
  }
  const auto is_moved_by_plan = [](residence r) { return r == residence::device || r == residence::staged; };
  const bool explicit_alone = std::ranges::all_of(plan.home, is_moved_by_plan);
  kind.swaps = kind.swaps || !explicit_alone;
  if (!ends_forward_first(g, plan)) return kind;
  kind.by = plan_class::passes;
  const auto orders = whole_orders(g);
  const bool whole =
      std::ranges::any_of(orders, [&](const auto& order) { return is_first_order(plan, order); });
  if (explicit_alone && whole) kind.by = plan_class::whole;
  return kind;
}

nanoseconds bound_for(const time_bounds& b, const plan_kind& kind) {
  if (kind.by == plan_class::any || (kind.by == plan_class::whole && !b.whole)) return b.compute;
  const class_bounds& of = kind.by == plan_class::whole ? *b.whole : b.passes;
  if (kind.swaps && kind.repeats) return of.both;
  if (kind.swaps) return of.swap;
  return of.recompute;
}

time_bounds bounds_of(const problem& p) {
  const passes x = passes_of(p);
  time_bounds found;
  found.compute = static_cast<nanoseconds>(x.forward + x.backward);
  const class_bounds none{found.compute, found.compute, found.compute};
  found.passes = none;
  found.whole = none;
  const bool links = p.on.link_to_device_bytes_per_s > 0 && p.on.link_to_host_bytes_per_s > 0;
  const auto orders = whole_orders(p.network);
  for (const auto& [swaps, repeats, member] :
       {std::tuple{true, false, &class_bounds::swap}, std::tuple{false, true, &class_bounds::recompute},
        std::tuple{true, true, &class_bounds::both}}) {
    const allowed what{swaps && links, repeats};
    pass_bound s{found.compute, {}};
    if (x.backward > 0) s = pass_bound_of(x, p.on, p.budget, what);
    found.passes.*member = s.least;
    nanoseconds whole = no_bound;
    for (const std::vector<compute>& order : orders)
      whole = std::min(whole, whole_bound(p, order, what, s.at));
    found.whole.value().*member = std::max(s.least, whole);
  }
  // A plan that does less is one that may do more.
  for (class_bounds* of : {&found.passes, &*found.whole})
    of->both = std::min({of->both, of->swap, of->recompute});
  return found;
}

}  // namespace um
