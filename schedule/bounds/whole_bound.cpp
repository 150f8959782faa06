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
using whole::prices;
using whole::recompute;
using whole::value;

// Projection on the simplex: the nearest point without negative entries whose entries add up to 1.
void to_simplex(std::array<double, 3>& x) {
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

// Subgradient method: steps along smoothed subgradients towards a target value (Polyak's step), which comes
// nearer when it is not reached.
class ascent {
 public:
  ascent(const model& m, allowed what, prices start)
      : of_(m, what), best_(std::move(start)), lanes_(what.swaps ? static_cast<double>(m.count) : 0) {}

  double run(std::size_t steps) {
    double value = of_.at(best_), target_gain = 0.1;
    prices x = best_, along = of_.subgradient();
    double here = value;
    int failed = 0;
    for (std::size_t i = 0; i < steps && target_gain > 1e-4; ++i) {
      const double length = size_of(along);
      if (length < 1e-18) break;
      step(x, along, std::max(0.0, value + target_gain - here) / length);
      here = of_.at(x);
      if (here > value) {
        failed = here > value + target_gain / 4 ? 0 : failed + 1;
        value = here;
        best_ = x;
      } else {
        ++failed;
      }
      smooth(along, of_.subgradient());
      constexpr int patience = 12;
      if (failed < patience) continue;
      failed = 0;
      target_gain /= 2;
      x = best_;
      here = of_.at(x);
      along = of_.subgradient();
    }
    return value;
  }

 private:
  double size_of(const prices& d) const {
    double sum = 0;
    for (const double b : d.byte) sum += b * b;
    for (const auto& l : d.of_lane) {
      for (const double c : l) sum += c * c * lanes_;
    }
    return sum;
  }

  void step(prices& x, const prices& along, double by) const {
    for (std::size_t i = 0; i < x.byte.size(); ++i) x.byte[i] = std::max(0.0, x.byte[i] + by * along.byte[i]);
    if (lanes_ == 0) return;
    for (std::size_t i = 0; i < x.of_lane.size(); ++i) {
      for (std::size_t l = 0; l < 3; ++l) x.of_lane[i][l] += by * lanes_ * along.of_lane[i][l];
      if (i % 2 == 0) {
        to_simplex(x.of_lane[i]);
      } else {
        for (double& c : x.of_lane[i]) c = std::max(0.0, c);
        x.of_lane[i][recompute] = 0;
      }
    }
  }

  static void smooth(prices& along, const prices& now) {
    constexpr double old = 0.6;
    const auto mix = [](double& a, double b) { a = old * a + (1 - old) * b; };
    for (std::size_t i = 0; i < along.byte.size(); ++i) mix(along.byte[i], now.byte[i]);
    for (std::size_t i = 0; i < along.of_lane.size(); ++i) {
      for (std::size_t l = 0; l < 3; ++l) mix(along.of_lane[i][l], now.of_lane[i][l]);
    }
  }

  lagrangian of_;
  prices best_;
  double lanes_;  // factor of steps for lanes, each of which has a small part of the time
};

prices prices_from(const model& m, std::size_t loss, const first_prices& start, double budget) {
  prices x;
  x.byte.assign(2 * m.count, 0);
  x.of_lane.assign(2 * m.count + 1, {0, 0, 0});
  if (2 * loss < x.byte.size()) x.byte[2 * loss] = start.byte * budget / m.unit;
  for (std::size_t i = 0; i < x.of_lane.size(); ++i) {
    const bool before = i <= 2 * loss;
    x.of_lane[i][copy_out] = before ? std::min(1.0, start.out) : 0;
    x.of_lane[i][copy_in] = before ? 0 : std::min(1.0, start.in);
    if (i % 2 == 0) x.of_lane[i][recompute] = 1 - x.of_lane[i][copy_out] - x.of_lane[i][copy_in];
  }
  return x;
}

}  // namespace

nanoseconds whole_bound(const problem& p, const std::vector<compute>& order, allowed what,
                        const first_prices& start) {
  const model m = whole::model_of(p, order, what);
  if (!m.feasible) return no_bound;
  if (m.all_fits) return static_cast<nanoseconds>(m.unit);
  std::size_t size = 1;
  for (const value& v : m.values) {
    for (const absence& s : v.away) size += s.last - s.first + 1;
  }
  const auto loss = static_cast<std::size_t>(uses_of(p.network, order).loss);
  constexpr std::size_t work = 20'000'000, least = 20, most = 400;
  ascent up(m, what, prices_from(m, loss, start, static_cast<double>(p.budget)));
  const double value = up.run(std::clamp(work / size, least, most));
  constexpr double rounding = 1e-9;
  return static_cast<nanoseconds>(std::floor(std::max(1.0, value - rounding) * m.unit));
}

}  // namespace um
