#include "schedule/bounds/pass_bound.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schedule/bounds/closure.hpp"
#include "schedule/bounds/simplex.hpp"
#include "schedule/forecast.hpp"

namespace um {
namespace {

// What one set of decisions uses.
struct column {
  double kept = 0, out = 0, in = 0, again = 0;  // bytes, ns, ns, ns
};

// Dual prices: of a byte on the device, of a nanosecond of each copy lane and of computing.
struct prices {
  double byte = 0, out = 0, in = 0, again = 0;
};

struct rates {
  double out = 0, in = 0;  // ns per byte
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

// The program over mixtures of these columns, times in units of the network's.
// Variables: a share of each column, then f and b beyond `forward` and `backward`.
// Rows: shares add up to 1; kept; f against out; b against again; b against in.
linear_program mixture_of(const std::vector<column>& columns, const passes& x, double budget) {
  const double unit = x.forward + x.backward;
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
  return lp;
}

// Column generation: over all mixtures of columns, min f + b with f >= forward, f >= out,
// b >= backward + again, b >= in and kept <= budget. The dual prices say which column is missing.
pass_bound solve(const passes& x, const rates& r, double budget) {
  const double unit = x.forward + x.backward;
  std::vector<column> columns;
  for (const prices& at : {prices{1, 0, 0, 0}, prices{0, 1, 1, 1}, prices{1e9, 1e-9, 1e-9, 1e-9}})
    columns.push_back(cheapest(x, r, at).first);
  const double least = std::ranges::min_element(columns, {}, &column::kept)->kept;
  if (least > budget) return {};
  double best = unit;
  first_prices best_at;
  constexpr int most_columns = 400;
  for (int i = 0; i < most_columns; ++i) {
    const linear_solution s = minimum_of(mixture_of(columns, x, budget));
    if (!s.bounded) break;
    const prices at{s.dual[1] * unit / budget, s.dual[2], s.dual[4], s.dual[3]};
    const auto [next, price] = cheapest(x, r, at);
    // The value of the dual at these prices is a bound, the column that it lacks or not.
    const double value = unit + price - at.byte * budget - at.out * x.forward - at.in * x.backward;
    if (value > best) best_at = {at.byte, at.out, at.in};
    best = std::max(best, value);
    if (value >= unit + s.value * unit - 1e-7 * unit) break;
    columns.push_back(next);
  }
  return {static_cast<nanoseconds>(std::floor(best)), best_at};
}

rates rates_of(const machine& on, allowed what) {
  const auto a_byte = [](std::uint64_t rate) { return rate == 0 ? 0 : 1e9 / static_cast<double>(rate); };
  return {a_byte(on.link_to_host_bytes_per_s), a_byte(on.link_to_device_bytes_per_s), what.swaps,
          what.repeats};
}

}  // namespace

op_id first_backward(const graph& g) {
  const auto writes_gradient = [&](const op& o) {
    return std::ranges::any_of(o.out, [&](tensor_id t) {
      return g.tensors[t].use == role::activation_gradient || g.tensors[t].use == role::parameter_gradient;
    });
  };
  return static_cast<op_id>(std::ranges::find_if(g.ops, writes_gradient) - g.ops.begin());
}

passes passes_of(const problem& p) {
  const graph& g = p.network;
  passes x;
  const op_id loss = first_backward(g);
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

pass_bound pass_bound_of(const passes& x, const machine& on, byte_count budget, allowed what) {
  return solve(x, rates_of(on, what), static_cast<double>(budget));
}

}  // namespace um
