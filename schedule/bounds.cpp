#include "schedule/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "schedule/closure.hpp"
#include "schedule/forecast.hpp"
#include "schedule/orders.hpp"
#include "schedule/simplex.hpp"

namespace um {
namespace {

struct saved_tensor {
  double bytes = 0;
  bool given = false;       // it starts at home: nothing is copied out
  std::size_t made_by = 0;  // else its producer, as an index into forward
};

// The two passes of a network, and what lies between them.
struct passes {
  double forward = 0, backward = 0;  // ns
  std::vector<saved_tensor> saved;
  std::vector<double> again;                    // ns: of each forward operator, when it is computed again
  std::vector<std::vector<std::size_t>> needs;  // forward operators that must run again for it
};

bool writes_gradient(const graph& g, const op& o) {
  return std::ranges::any_of(o.out, [&](tensor_id t) {
    return g.tensors[t].use == role::activation_gradient || g.tensors[t].use == role::parameter_gradient;
  });
}

passes passes_of(const problem& p) {
  const graph& g = p.network;
  passes x;
  const auto first = std::ranges::find_if(g.ops, [&](const op& o) { return writes_gradient(g, o); });
  const auto loss = static_cast<op_id>(first - g.ops.begin());
  std::vector<bool> saved(g.tensors.size(), false);
  std::vector<std::size_t> made_by(g.tensors.size(), loss);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const auto time = static_cast<double>(p.costs[o].time);
    (o < loss ? x.forward : x.backward) += time;
    if (o < loss) x.again.push_back(static_cast<double>(time_again(p, o)));
    for (const tensor_id t : g.ops[o].out) made_by[t] = std::min<std::size_t>(o, loss);
    for (const tensor_id t : g.ops[o].in)
      saved[t] = saved[t] || (o >= loss && (made_by[t] < loss || persists(g.tensors[t].use)));
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (saved[t])
      x.saved.push_back(
          {static_cast<double>(bytes_of(g.tensors[t])), persists(g.tensors[t].use), made_by[t]});
  }
  for (op_id o = 0; o < loss; ++o) {
    x.needs.emplace_back();
    for (const tensor_id t : g.ops[o].in) {
      if (!saved[t] && !persists(g.tensors[t].use)) x.needs.back().push_back(made_by[t]);
    }
  }
  return x;
}

// What one way of deciding takes.
struct column {
  double kept = 0, out = 0, in = 0, again = 0;  // bytes, ns, ns, ns
};

// What a byte on the device, a nanosecond of each copy lane and one of computing are worth.
struct prices {
  double byte = 0, out = 0, in = 0, again = 0;
};

struct rates {
  double out = 0, in = 0;  // ns a byte
  bool swaps = true, repeats = true;
};

// The decisions that are cheapest at those prices, and their price.
std::pair<column, double> cheapest(const passes& x, const rates& r, const prices& at) {
  std::vector<double> gain(x.again.size(), 0);
  for (std::size_t o = 0; o < x.again.size(); ++o) gain[o] = -x.again[o] * at.again;
  const auto price_kept = [&](const saved_tensor& t) { return t.bytes * at.byte; };
  const auto price_moved = [&](const saved_tensor& t) {
    return t.bytes * ((t.given ? 0 : r.out * at.out) + r.in * at.in);
  };
  const auto moves = [&](const saved_tensor& t) { return r.swaps && price_moved(t) < price_kept(t); };
  for (const saved_tensor& t : x.saved) {
    if (!t.given) gain[t.made_by] += moves(t) ? price_moved(t) : price_kept(t);
  }
  std::vector<bool> again(x.again.size(), false);
  if (r.repeats) again = best_closure(gain, x.needs);
  column c;
  for (std::size_t o = 0; o < x.again.size(); ++o) c.again += again[o] ? x.again[o] : 0;
  for (const saved_tensor& t : x.saved) {
    if (!t.given && again[t.made_by]) continue;
    if (moves(t)) {
      c.out += t.given ? 0 : t.bytes * r.out;
      c.in += t.bytes * r.in;
    } else {
      c.kept += t.bytes;
    }
  }
  return {c, c.kept * at.byte + c.out * at.out + c.in * at.in + c.again * at.again};
}

// Of all mixtures of columns: min f + b with f >= forward, f >= out, b >= backward + again, b >= in and
// kept <= budget. Its dual: prices that say which column is missing.
struct solved {
  nanoseconds least = no_bound;
  prices at;
};

solved solve(const passes& x, const rates& r, double budget) {
  const double unit = x.forward + x.backward;
  std::vector<column> columns;
  for (const prices& at : {prices{1, 0, 0, 0}, prices{0, 1, 1, 1}, prices{1e9, 1e-9, 1e-9, 1e-9}})
    columns.push_back(cheapest(x, r, at).first);
  const double least = std::ranges::min_element(columns, {}, &column::kept)->kept;
  if (least > budget) return {};
  double best = unit;
  prices best_at;
  constexpr int most_columns = 400;
  for (int i = 0; i < most_columns; ++i) {
    // Variables: a share of each column, then f and b beyond `forward` and `backward`.
    // Rows: shares add up to 1; kept; f against out; b against again; b against in.
    linear_program lp;
    lp.cost.assign(columns.size(), 0);
    lp.cost.insert(lp.cost.end(), {1, 1});
    const auto row = [&](auto&& of, double f, double b, double limit) {
      std::vector<double> coefficients;
      for (const column& c : columns) coefficients.push_back(of(c));
      coefficients.insert(coefficients.end(), {f, b});
      lp.at_most.push_back({std::move(coefficients), limit});
    };
    row([](const column&) { return -1.0; }, 0, 0, -1);
    row([&](const column& c) { return c.kept / budget; }, 0, 0, 1);
    row([&](const column& c) { return c.out / unit; }, -1, 0, x.forward / unit);
    row([&](const column& c) { return c.again / unit; }, 0, -1, 0);
    row([&](const column& c) { return c.in / unit; }, 0, -1, x.backward / unit);
    const linear_solution s = minimum_of(lp);
    if (!s.bounded) break;
    const prices at{s.dual[1] * unit / budget, s.dual[2], s.dual[4], s.dual[3]};
    const auto [next, price] = cheapest(x, r, at);
    // The value of the dual at these prices is a bound, the column that it lacks or not.
    const double value = unit + price - at.byte * budget - at.out * x.forward - at.in * x.backward;
    if (value > best) best_at = at;
    best = std::max(best, value);
    if (value >= unit + s.value * unit - 1e-7 * unit) break;
    columns.push_back(next);
  }
  return {static_cast<nanoseconds>(std::floor(best)), best_at};
}

rates rates_of(const problem& p, allowed what) {
  const auto a_byte = [](std::uint64_t rate) { return rate == 0 ? 0 : 1e9 / static_cast<double>(rate); };
  return {a_byte(p.on.link_to_host_bytes_per_s), a_byte(p.on.link_to_device_bytes_per_s), what.swaps,
          what.repeats};
}

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
  const auto loss = static_cast<op_id>(
      std::ranges::find_if(g.ops, [&](const op& o) { return writes_gradient(g, o); }) - g.ops.begin());
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
    solved s{found.compute, {}};
    if (x.backward > 0) s = solve(x, rates_of(p, what), static_cast<double>(p.budget));
    found.passes.*member = s.least;
    nanoseconds whole = no_bound;
    for (const std::vector<compute>& order : orders)
      whole = std::min(whole, whole_bound(p, order, what, {s.at.byte, s.at.out, s.at.in}));
    found.whole.value().*member = std::max(s.least, whole);
  }
  // A plan that does less is one that may do more.
  for (class_bounds* of : {&found.passes, &*found.whole})
    of->both = std::min({of->both, of->swap, of->recompute});
  return found;
}

}  // namespace um
