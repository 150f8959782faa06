#include "schedule/bounds/whole_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "schedule/bounds/lagrangian.hpp"
#include "schedule/uses.hpp"

namespace um {
namespace {

using whole::absence;
using whole::copy_in;
using whole::copy_out;
using whole::lagrangian;
using whole::model;
using whole::priced_lane;
using whole::prices;
using whole::recompute;
using whole::value;

// Projection on the simplex: the nearest point without negative entries whose entries add up to 1.
void project_onto_simplex(std::array<double, 3>& x) {
  std::array<double, 3> sorted = x;
  std::ranges::sort(sorted, std::greater{});
  double sum = 0, level = 0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    sum += sorted[k];
    const double next = (sum - 1) / static_cast<double>(k + 1);
    if (sorted[k] > next) level = next;
  }
  for (double& c : x) c = std::max(0.0, c - level);
}

// Subgradient ascent with smoothed subgradients and Polyak's step towards a target value. The target is
// lowered when it is not reached.
class subgradient_ascent {
 public:
  subgradient_ascent(const model& m, allowed_moves allowed, prices start)
      : lagrangian_(m, allowed),
        best_prices_(std::move(start)),
        lane_step_factor_(allowed.swaps ? static_cast<double>(m.position_count) : 0) {}

  double maximize(std::size_t steps) {
    double value = lagrangian_.evaluate(best_prices_), target_gain = 0.1;
    prices x = best_prices_, along = lagrangian_.subgradient();
    double here = value;
    int failed = 0;
    for (std::size_t i = 0; i < steps && target_gain > 1e-4; ++i) {
      const double length = squared_length(along);
      if (length < 1e-18) break;
      move_prices(x, along, std::max(0.0, value + target_gain - here) / length);
      here = lagrangian_.evaluate(x);
      if (here > value) {
        failed = here > value + target_gain / 4 ? 0 : failed + 1;
        value = here;
        best_prices_ = x;
      } else {
        ++failed;
      }
      average_direction(along, lagrangian_.subgradient());
      constexpr int patience = 12;
      if (failed < patience) continue;
      failed = 0;
      target_gain /= 2;
      x = best_prices_;
      here = lagrangian_.evaluate(x);
      along = lagrangian_.subgradient();
    }
    return value;
  }

 private:
  double squared_length(const prices& d) const {
    double sum = 0;
    for (const double b : d.byte_prices) sum += b * b;
    for (const auto& l : d.lane_prices) {
      for (const double c : l) sum += c * c * lane_step_factor_;
    }
    return sum;
  }

  void move_prices(prices& x, const prices& along, double by) const {
    for (std::size_t i = 0; i < x.byte_prices.size(); ++i)
      x.byte_prices[i] = std::max(0.0, x.byte_prices[i] + by * along.byte_prices[i]);
    if (lane_step_factor_ == 0) return;
    for (std::size_t i = 0; i < x.lane_prices.size(); ++i) {
      for (std::size_t l = 0; l < 3; ++l)
        x.lane_prices[i][l] += by * lane_step_factor_ * along.lane_prices[i][l];
      if (i % 2 == 0) {
        project_onto_simplex(x.lane_prices[i]);
      } else {
        for (double& c : x.lane_prices[i]) c = std::max(0.0, c);
        x.lane_prices[i][recompute] = 0;
      }
    }
  }

  static void average_direction(prices& along, const prices& now) {
    constexpr double old = 0.6;
    const auto mix = [](double& a, double b) { a = old * a + (1 - old) * b; };
    for (std::size_t i = 0; i < along.byte_prices.size(); ++i) mix(along.byte_prices[i], now.byte_prices[i]);
    for (std::size_t i = 0; i < along.lane_prices.size(); ++i) {
      for (std::size_t l = 0; l < 3; ++l) mix(along.lane_prices[i][l], now.lane_prices[i][l]);
    }
  }

  lagrangian lagrangian_;
  prices best_prices_;
  double lane_step_factor_;  // steps of lane prices are this many times larger; 0: lane prices stay fixed
};

prices expand_start_prices(const model& m, std::size_t loss, const start_prices& start, double budget) {
  prices x;
  x.byte_prices.assign(2 * m.position_count, 0);
  x.lane_prices.assign(2 * m.position_count + 1, {0, 0, 0});
  if (2 * loss < x.byte_prices.size()) x.byte_prices[2 * loss] = start.byte * budget / m.unit_ns;
  for (std::size_t i = 0; i < x.lane_prices.size(); ++i) {
    const bool before = i <= 2 * loss;
    x.lane_prices[i][copy_out] = before ? std::min(1.0, start.out) : 0;
    x.lane_prices[i][copy_in] = before ? 0 : std::min(1.0, start.in);
    if (i % 2 == 0) x.lane_prices[i][recompute] = 1 - x.lane_prices[i][copy_out] - x.lane_prices[i][copy_in];
  }
  return x;
}

// Sets prices as if the copy lane were busy in the intervals [begin, end]: its time costs as much as waiting,
// and recomputation gets the rest of the price of waits.
void raise_copy_prices(prices& x, priced_lane lane, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i <= end; ++i) {
    x.lane_prices[i][lane] = 1;
    if (i % 2 == 0) project_onto_simplex(x.lane_prices[i] = {x.lane_prices[i][0], x.lane_prices[i][1], 0});
  }
}

// Returns the best start of the ascent: the given prices, or prices at which one large value waits for its
// copy lane. The ascent changes one interval at a time and does not find the latter.
prices best_start_prices(const model& m, allowed_moves allowed, prices start) {
  constexpr std::size_t most_values = 8;
  std::vector<const value*> largest;
  for (const value& v : m.values) largest.push_back(&v);
  std::ranges::stable_sort(largest, std::ranges::greater{}, [](const value* v) { return v->budget_share; });
  largest.resize(std::min(largest.size(), most_values));
  lagrangian at(m, allowed);
  double best = at.evaluate(start);
  const auto consider = [&](priced_lane lane, std::size_t begin, std::size_t end) {
    prices x = start;
    raise_copy_prices(x, lane, begin, end);
    const double value = at.evaluate(x);
    if (value <= best) return;
    best = value;
    start = std::move(x);
  };
  for (const value* v : largest) {
    if (v->starts_on_host) consider(copy_in, 0, v->absences.front().end);
    if (!v->leaves_without_copy) consider(copy_out, v->first_leave_interval, v->absences.back().end);
  }
  return start;
}

}  // namespace

nanoseconds whole_operator_bound(const problem& p, const std::vector<compute>& order, allowed_moves allowed,
                                 const start_prices& start) {
  const model m = whole::make_model(p, order, allowed);
  if (!m.is_feasible) return no_bound;
  if (m.fits_entirely) return static_cast<nanoseconds>(m.unit_ns);
  std::size_t size = 1;
  for (const value& v : m.values) {
    for (const absence& s : v.absences) size += s.end - s.begin + 1;
  }
  const auto loss = static_cast<std::size_t>(make_use_table(p.network, order).backward_begin);
  constexpr std::size_t work = 20'000'000, least = 20, most = 400;
  prices first = expand_start_prices(m, loss, start, static_cast<double>(p.budget));
  if (allowed.swaps) first = best_start_prices(m, allowed, std::move(first));
  subgradient_ascent up(m, allowed, std::move(first));
  const double value = up.maximize(std::clamp(work / size, least, most));
  constexpr double rounding = 1e-9;
  return static_cast<nanoseconds>(std::floor(std::max(1.0, value - rounding) * m.unit_ns));
}

}  // namespace um
