#include "schedule/bounds/pass_bound.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schedule/bounds/closure.hpp"
#include "schedule/bounds/simplex.hpp"
#include "schedule/forecast.hpp"

namespace um {
namespace {

// Memory and lane times (in ns) of one set of decisions.
struct column {
  double kept_bytes = 0, copy_out_time = 0, copy_in_time = 0, recompute_time = 0;
};

// Dual prices: of a byte on the device, of a nanosecond of each copy lane and of computing.
struct dual_prices {
  double byte = 0, out = 0, in = 0, recompute = 0;
};

struct copy_rates {
  double ns_per_byte_out = 0, ns_per_byte_in = 0;  // ns per byte
  bool swaps = true, recomputes = true;
};

// The cheapest decisions at these prices, and their total price.
std::pair<column, double> cheapest_column(const passes& x, const copy_rates& r, const dual_prices& at) {
  std::vector<double> gain(x.recompute_time.size(), 0);
  for (std::size_t o = 0; o < x.recompute_time.size(); ++o) gain[o] = -x.recompute_time[o] * at.recompute;
  const auto price_kept = [&](const saved_tensor& t) { return t.bytes * at.byte; };
  const auto price_moved = [&](const saved_tensor& t) {
    return t.bytes * ((t.starts_on_host ? 0 : r.ns_per_byte_out * at.out) + r.ns_per_byte_in * at.in);
  };
  const auto moves = [&](const saved_tensor& t) { return r.swaps && price_moved(t) < price_kept(t); };
  for (const saved_tensor& t : x.saved_tensors) {
    if (!t.starts_on_host) gain[t.producer] += moves(t) ? price_moved(t) : price_kept(t);
  }
  std::vector<bool> again(x.recompute_time.size(), false);
  if (r.recomputes) again = max_weight_closure(gain, x.required_ops);
  column c;
  for (std::size_t o = 0; o < x.recompute_time.size(); ++o)
    c.recompute_time += again[o] ? x.recompute_time[o] : 0;
  for (const saved_tensor& t : x.saved_tensors) {
    if (!t.starts_on_host && again[t.producer]) continue;
    if (moves(t)) {
      c.copy_out_time += t.starts_on_host ? 0 : t.bytes * r.ns_per_byte_out;
      c.copy_in_time += t.bytes * r.ns_per_byte_in;
    } else {
      c.kept_bytes += t.bytes;
    }
  }
  return {c, c.kept_bytes * at.byte + c.copy_out_time * at.out + c.copy_in_time * at.in +
                 c.recompute_time * at.recompute};
}

// The linear program over mixtures of these columns. Times are relative to the network's.
linear_program mixture_program(const std::vector<column>& columns, const passes& x, double budget) {
  const double unit = x.forward_time + x.backward_time;
  linear_program lp;
  lp.costs.assign(columns.size(), 0);
  lp.costs.insert(lp.costs.end(), {1, 1});
  const auto row = [&](auto&& of, double f, double b, double limit) {
    std::vector<double> coefficients;
    for (const column& c : columns) coefficients.push_back(of(c));
    coefficients.insert(coefficients.end(), {f, b});
    lp.rows.push_back({std::move(coefficients), limit});
  };
  row([](const column&) { return -1.0; }, 0, 0, -1);
  row([&](const column& c) { return c.kept_bytes / budget; }, 0, 0, 1);
  row([&](const column& c) { return c.copy_out_time / unit; }, -1, 0, x.forward_time / unit);
  row([&](const column& c) { return c.recompute_time / unit; }, 0, -1, 0);
  row([&](const column& c) { return c.copy_in_time / unit; }, 0, -1, x.backward_time / unit);
  return lp;
}

// Column generation. A column is a choice for every value, with its times of copies out, copies in, and
// recomputation. Minimizes forward + backward over all mixtures of columns. forward is at least the forward
// pass and the copies out, backward at least the backward pass plus recomputation and the copies in, and kept
// bytes at most the budget. The dual prices yield the next column.
pass_bound generate_columns(const passes& x, const copy_rates& r, double budget) {
  const double unit = x.forward_time + x.backward_time;
  std::vector<column> columns;
  for (const dual_prices& at :
       {dual_prices{1, 0, 0, 0}, dual_prices{0, 1, 1, 1}, dual_prices{1e9, 1e-9, 1e-9, 1e-9}})
    columns.push_back(cheapest_column(x, r, at).first);
  const double least = std::ranges::min_element(columns, {}, &column::kept_bytes)->kept_bytes;
  if (least > budget) return {};
  double best = unit;
  start_prices best_at;
  constexpr int most_columns = 400;
  for (int i = 0; i < most_columns; ++i) {
    const linear_solution s = minimize(mixture_program(columns, x, budget));
    if (!s.is_feasible) break;
    const dual_prices at{s.dual[1] * unit / budget, s.dual[2], s.dual[4], s.dual[3]};
    const auto [next, price] = cheapest_column(x, r, at);
    // The dual value at these prices is a bound even if a column is missing.
    const double value = unit + price - at.byte * budget - at.out * x.forward_time - at.in * x.backward_time;
    if (value > best) best_at = {at.byte, at.out, at.in};
    best = std::max(best, value);
    if (value >= unit + s.value * unit - 1e-7 * unit) break;
    columns.push_back(next);
  }
  return {static_cast<nanoseconds>(std::floor(best)), best_at};
}

// A bound from the instant between two iterations. The device then holds at most the budget. Other parameters
// and inputs are copied in during the forward pass, before they are read. Other gradients are copied out in
// the backward pass, after they are written. Returns no_bound if data must move and swaps are not allowed.
nanoseconds bound_between_iterations(const passes& x, const copy_rates& r, double budget) {
  const double time = x.forward_time + x.backward_time;
  const double away = x.forward_start_bytes + x.gradient_bytes - budget;
  if (away <= 0) return static_cast<nanoseconds>(time);
  if (!r.swaps) return no_bound;
  const double hidden = x.forward_time / r.ns_per_byte_in + x.backward_time / r.ns_per_byte_out;
  const double waits = std::max(0.0, away - hidden) * std::min(r.ns_per_byte_in, r.ns_per_byte_out);
  return static_cast<nanoseconds>(std::floor(time + waits));
}

copy_rates rates_of(const machine& m, allowed_moves allowed) {
  const auto a_byte = [](std::uint64_t rate) { return rate == 0 ? 0 : 1e9 / static_cast<double>(rate); };
  return {a_byte(m.link_to_host_bytes_per_s), a_byte(m.link_to_device_bytes_per_s), allowed.swaps,
          allowed.recomputes};
}

}  // namespace

op_id first_backward(const graph& g) {
  const auto writes_gradient = [&](const op& o) {
    return std::ranges::any_of(o.out, [&](tensor_id t) {
      return g.tensors[t].role == role::activation_gradient || g.tensors[t].role == role::parameter_gradient;
    });
  };
  return static_cast<op_id>(std::ranges::find_if(g.ops, writes_gradient) - g.ops.begin());
}

passes split_passes(const problem& p) {
  const graph& g = p.network;
  passes x;
  const op_id loss = first_backward(g);
  std::vector<bool> saved(g.tensors.size(), false), read_forward(g.tensors.size(), false);
  std::vector<std::size_t> made_by(g.tensors.size(), loss);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const auto time = static_cast<double>(p.operator_costs[o].time);
    (o < loss ? x.forward_time : x.backward_time) += time;
    if (o < loss) x.recompute_time.push_back(static_cast<double>(recompute_time(p, o)));
    for (const tensor_id t : g.ops[o].out) made_by[t] = std::min<std::size_t>(o, loss);
    for (const tensor_id t : g.ops[o].in) {
      read_forward[t] = read_forward[t] || o < loss;
      saved[t] = saved[t] || (o >= loss && (made_by[t] < loss || persists(g.tensors[t].role)));
    }
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const auto bytes = static_cast<double>(bytes_of(g.tensors[t]));
    if (persists(g.tensors[t].role) && read_forward[t]) x.forward_start_bytes += bytes;
    if (g.tensors[t].role == role::parameter_gradient) x.gradient_bytes += bytes;
    if (saved[t]) x.saved_tensors.push_back({bytes, persists(g.tensors[t].role), made_by[t]});
  }
  for (op_id o = 0; o < loss; ++o) {
    x.required_ops.emplace_back();
    for (const tensor_id t : g.ops[o].in) {
      if (!saved[t] && !persists(g.tensors[t].role)) x.required_ops.back().push_back(made_by[t]);
    }
  }
  return x;
}

pass_bound bound_passes(const passes& x, const machine& m, byte_count budget, allowed_moves allowed) {
  const copy_rates rates = rates_of(m, allowed);
  pass_bound found = generate_columns(x, rates, static_cast<double>(budget));
  found.min_time = std::max(found.min_time, bound_between_iterations(x, rates, static_cast<double>(budget)));
  return found;
}

}  // namespace um
