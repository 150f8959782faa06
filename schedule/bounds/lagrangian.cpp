#include "schedule/bounds/lagrangian.hpp"

#include <algorithm>

#include "schedule/bounds/closure.hpp"

namespace um::whole {
namespace {

bool is_recomputable(const value& v) {
  return std::ranges::any_of(v.away, &absence::recomputable);
}

}  // namespace

lagrangian::lagrangian(const model& m, allowed what) : m_(m), what_(what), index_(m, what) {
  excess_.byte.resize(2 * m.count);
  excess_.of_lane.resize(2 * m.count + 1);
  without_.resize(m.values.size());
  with_.resize(m.values.size());
}

double lagrangian::at(const prices& x) {
  index_.set(x);
  std::vector<double> gain(m_.count, 0);
  for (std::size_t o = 0; o < m_.count; ++o) gain[o] = -m_.again[o] * index_.least_run(o);
  double sum = 1;
  for (std::size_t i = 0; i < m_.values.size(); ++i) {
    const value& v = m_.values[i];
    tabulate(costs_, index_, v, what_.swaps);
    without_[i] = cheapest_without_recompute(costs_, index_, v);
    sum += without_[i].cost;
    if (!what_.repeats || !is_recomputable(v)) continue;
    with_[i] = cheapest_with_recompute(costs_, index_, v, m_.large_outputs[v.producer] > 1);
    gain[v.producer] += without_[i].cost - with_[i].cost;
  }
  std::vector<bool> chosen(m_.count, false);
  if (what_.repeats) chosen = best_closure(gain, m_.needs);
  for (std::size_t o = 0; o < m_.count; ++o) sum -= chosen[o] ? gain[o] : 0;
  for (std::size_t i = 0; i < m_.fixed.size(); ++i) sum -= x.byte[i] * (1 - m_.fixed[i]);
  for (std::size_t o = 0; o < m_.count; ++o)
    sum -= m_.time[o] * (x.of_lane[2 * o + 1][copy_out] + x.of_lane[2 * o + 1][copy_in]);
  add_excess(chosen);
  return sum;
}

bool lagrangian::recomputes(const value& v, const std::vector<bool>& chosen) const {
  return what_.repeats && is_recomputable(v) && chosen[v.producer];
}

void lagrangian::add_excess(const std::vector<bool>& chosen) {
  std::vector<double> change(2 * m_.count + 1, 0);
  for (auto& l : excess_.of_lane) l = {0, 0, 0};
  for (std::size_t o = 0; o < m_.count; ++o) {
    if (chosen[o]) excess_.of_lane[index_.least_run_at(o)][recompute] += m_.again[o];
  }
  for (std::size_t i = 0; i < m_.values.size(); ++i) {
    const value& v = m_.values[i];
    add_excess(v, recomputes(v, chosen) ? with_[i] : without_[i], change);
  }
  double here = 0;
  for (std::size_t i = 0; i < m_.fixed.size(); ++i) {
    here += change[i];
    excess_.byte[i] = here + m_.fixed[i] - 1;
  }
  for (std::size_t o = 0; o < m_.count; ++o) {
    for (const priced_lane l : {copy_out, copy_in}) excess_.of_lane[2 * o + 1][l] -= m_.time[o];
  }
}

void lagrangian::add_excess(const value& v, const value_choice& c, std::vector<double>& change) {
  const auto hold = [&](std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    change[begin] += v.bytes;
    change[end] -= v.bytes;
  };
  if (c.out) excess_.of_lane[c.out->interval][copy_out] += v.out;
  for (std::size_t k = 0; k < v.away.size(); ++k) {
    const gap_use u = use_of(index_, v, c, k);
    hold(v.away[k].first, std::min(u.leaves, v.away[k].last));
    hold(std::max(u.back, u.leaves), v.away[k].last);
    if (u.copied_in) excess_.of_lane[u.back][copy_in] += v.in;
    if (!u.recomputed) continue;
    excess_.of_lane[u.back][recompute] += m_.again[v.producer];
    if (u.shares_run) excess_.of_lane[index_.least_run_at(v.producer)][recompute] -= m_.again[v.producer];
  }
}

}  // namespace um::whole
