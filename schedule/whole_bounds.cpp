#include "schedule/whole_bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>

#include "schedule/closure.hpp"
#include "schedule/uses.hpp"

namespace um {
namespace {

using whole::model;
using whole::stretch;
using whole::value;

enum lane_index : std::uint8_t { out, in, again };
constexpr std::size_t none = ~std::size_t{0}, every_stretch = none - 1;

struct prices {
  std::vector<double> byte;                    // per instant
  std::vector<std::array<double, 3>> of_lane;  // per interval; `again` in waits alone
};

// How a stretch is spent. held: [first, leaves) and [back, last).
struct spent {
  std::size_t leaves = 0, back = 0;
  bool copied_in = false, repeated = false;
  bool counted = false;  // the run counts with the closure
};

// How a value can be back before the end of a stretch: by a copy or by another run, `time` long, at what the
// lane costs beyond something.
struct way_back {
  lane_index lane = in;
  double time = 0, beyond = 0;
};

// What prices come to. The sooner a value comes back, or the later it leaves, the longer it is held: only an
// interval cheaper than all later ones, or than all earlier ones, can be the best. Rounding keeps such
// orders.
class priced {
 protected:
  priced(const model& m, allowed what) : m_(m), what_(what) {}

  void set(const prices& x) {
    x_ = &x;
    sum_.assign(1, 0);
    for (const double b : x.byte) sum_.push_back(sum_.back() + b);
    find_cheaper_before(in, 1);
    if (what_.swaps) find_cheaper_after();
    if (what_.repeats) find_cheaper_before(again, 2);
    find_least();
  }

  double price(std::size_t interval, lane_index l) const { return x_->of_lane[interval][l]; }
  double held(const value& v, std::size_t begin, std::size_t end) const {
    return end <= begin ? 0 : v.bytes * (sum_[end] - sum_[begin]);
  }
  way_back copy_of(const value& v) const { return {in, v.in, 0}; }
  way_back run_of(const value& v, bool counted) const {
    return {again, m_.again[v.producer], counted ? least_[v.producer] : 0};
  }
  double cost_of(const value& v, const stretch& s, const way_back& by, std::size_t interval) const {
    return held(v, interval, s.last) + by.time * (price(interval, by.lane) - by.beyond);
  }

  // The least for coming back in or after `from`, or `most`. From the last back, calls use(interval, the
  // least from there on) where that falls.
  template <class Use>
  double for_cheaper(const value& v, const stretch& s, const way_back& by, std::size_t from, double most,
                     Use use) const {
    const std::vector<std::size_t>& cheaper = cheaper_before_[by.lane];
    for (std::size_t end = s.last + 1; end > from && held(v, end - 1, s.last) < most;
         end = cheaper[end - 1]) {
      most = std::min(most, cost_of(v, s, by, end - 1));
      use(end - 1, most);
    }
    return most;
  }
  double least_back(const value& v, const stretch& s, const way_back& by, std::size_t from,
                    double most = std::numeric_limits<double>::max()) const {
    return for_cheaper(v, s, by, from, most, [](std::size_t, double) {});
  }
  // The first interval that costs so little.
  std::size_t first_back(const value& v, const stretch& s, const way_back& by, std::size_t from,
                         double cost) const {
    const auto is_held_too_long = [&](std::size_t i) { return held(v, i, s.last) > cost; };
    std::size_t i = *std::ranges::partition_point(std::views::iota(from, s.last), is_held_too_long);
    const std::size_t step = by.lane == again ? 2 : 1;
    for (i += i % step; i < s.last && cost_of(v, s, by, i) > cost;) i += step;
    return i;
  }

  const model& m_;
  allowed what_;
  std::vector<std::size_t> cheaper_after_;  // per interval: the next in which copies out cost less
  std::vector<double> least_;               // per position: of running it again
  std::vector<std::size_t> least_at_;

 private:
  void find_cheaper_before(lane_index l, std::size_t step) {
    std::vector<std::size_t>& before = cheaper_before_[l];
    before.assign(x_->of_lane.size(), 0);
    for (std::size_t i = step; i < before.size(); i += step) {
      std::size_t end = i - step + 1;
      while (end > 0 && price(end - 1, l) >= price(i, l)) end = before[end - 1];
      before[i] = end;
    }
  }

  void find_cheaper_after() {
    const std::size_t count = x_->of_lane.size();
    cheaper_after_.resize(count);
    for (std::size_t i = count; i-- > 0;) {
      std::size_t next = i + 1;
      while (next < count && price(next, out) >= price(i, out)) next = cheaper_after_[next];
      cheaper_after_[i] = next;
    }
  }

  void find_least() {
    least_.assign(m_.count, 1);
    least_at_.assign(m_.count, 2 * m_.count);
    double least = std::numeric_limits<double>::max();
    std::size_t where = 2 * m_.count;
    for (std::size_t o = m_.count; o-- > 0;) {
      const double here = price(2 * (o + 1), again);
      if (o + 1 < m_.count && here < least) {
        least = here;
        where = 2 * (o + 1);
      }
      if (where < 2 * m_.count) least_[o] = least;
      least_at_[o] = where;
    }
  }

  const prices* x_ = nullptr;
  std::vector<double> sum_;                                 // of bytes' prices up to an instant
  std::array<std::vector<std::size_t>, 3> cheaper_before_;  // one past the last interval that costs less
};

// The cheapest for a value, as far as the rest follows from it.
struct dealt {
  double cost = 0;
  bool repeats = false;
  std::size_t counted = none;  // the stretch of which a run counts with the closure, or every_stretch
  std::size_t out_at = 0, out_in = none;  // the interval of its copy out, and the stretch that it ends before
  bool resident = false;                  // of what is clean
};

// What is cheapest for one value at given prices.
class dealer : protected priced {
 protected:
  using priced::priced;

  // Sets what does not depend on repeats.
  void look_at(const value& v) {
    v_ = &v;
    kept_.clear();
    for (const stretch& s : v.away) kept_.push_back(held(v, s.first, s.last));
    away_.clear();
    copies_.clear();
    if (!what_.swaps || v.clean) return;
    std::size_t begin = v.made;
    for (std::size_t k = 0; k < v.away.size(); ++k) {
      find_copies(k, begin);
      begin = v.away[k].last + 1;
    }
  }

  // The first run of a producer counts with the closure, be it for any of the stretches; all of them where it
  // makes several values, which may share runs.
  dealt deal(bool repeats) {
    if (v_->clean) return deal_clean();
    if (!repeats) return deal(false, none);
    if (m_.large_outputs[v_->producer] > 1) return deal(true, every_stretch);
    dealt best;
    best.cost = std::numeric_limits<double>::max();
    for (std::size_t k = 0; k < v_->away.size(); ++k) {
      if (!v_->away[k].again) continue;
      const dealt d = deal(true, k);
      if (d.cost < best.cost) best = d;
    }
    return best;
  }

  spent how(const value& v, const dealt& d, std::size_t k) const {
    const stretch& s = v.away[k];
    if (v.clean) return how_clean(v, d, k);
    const double stays = without_copies(v, d, k, held(v, s.first, s.last));
    if (k >= d.out_in && d.out_in != none) {
      const std::size_t leaves = k == d.out_in ? std::max(d.out_at, s.first) : s.first;
      const bool ends = is_last(v, k);
      const double back = ends ? 0 : least_back(v, s, copy_of(v), leaves);
      if (back + held(v, s.first, leaves) < stays)
        return {leaves, ends ? s.last : first_back(v, s, copy_of(v), leaves, back), !ends};
    }
    if (stays >= held(v, s.first, s.last)) return {s.last, s.last};
    const bool counted = counts(d, k);
    return {s.first, first_back(v, s, run_of(v, counted), s.first, stays), false, true, counted};
  }

 private:
  static bool is_last(const value& v, std::size_t k) { return v.stays_home && k + 1 == v.away.size(); }
  static bool counts(const dealt& d, std::size_t k) { return d.counted == k || d.counted == every_stretch; }

  // Kept, or computed again for less.
  double without_copies(const value& v, const dealt& d, std::size_t k, double kept) const {
    const stretch& s = v.away[k];
    if (!d.repeats || !s.again) return kept;
    return least_back(v, s, run_of(v, counts(d, k)), s.first, kept);
  }

  // The copies out that may be best of those from `begin` to the end of a stretch.
  void find_copies(std::size_t k, std::size_t begin) {
    const value& v = *v_;
    const stretch& s = v.away[k];
    const bool ends = is_last(v, k);
    rest_.clear();
    double rest = 0;
    if (!ends) {
      rest = for_cheaper(v, s, copy_of(v), s.first, std::numeric_limits<double>::max(),
                         [&](std::size_t i, double least) { rest_.emplace_back(i, least); });
    }
    away_.push_back(rest);
    for (std::size_t at = begin; at <= s.last; at = cheaper_after_[at]) {
      const std::size_t leaves = std::max(at, s.first);
      while (!ends && rest_.back().first < leaves) rest_.pop_back();
      const double back = ends ? 0 : rest_.back().second;
      copies_.push_back({at, k, v.out * price(at, out), held(v, s.first, leaves) + back});
    }
  }

  // Copied out once, in some interval, from then on each stretch may go without; or never.
  dealt deal(bool repeats, std::size_t counted) {
    dealt d{0, repeats, counted};
    stays_.clear();
    for (std::size_t k = 0; k < v_->away.size(); ++k) {
      stays_.push_back(without_copies(*v_, d, k, kept_[k]));
      d.cost += stays_[k];
    }
    double before = 0, behind = 0;
    for (std::size_t k = 0; k < away_.size(); ++k) behind += std::min(away_[k], stays_[k]);
    auto c = copies_.begin();
    for (std::size_t k = 0; k < away_.size(); ++k) {
      behind -= std::min(away_[k], stays_[k]);
      for (; c != copies_.end() && c->before == k; ++c) {
        const double cost = before + c->price + std::min(stays_[k], c->away) + behind;
        if (cost >= d.cost) continue;
        d.cost = cost;
        d.out_at = c->at;
        d.out_in = k;
      }
      before += stays_[k];
    }
    return d;
  }

  // At home from the start: it lies on the device throughout, or comes in and goes for nothing.
  dealt deal_clean() const {
    const value& v = *v_;
    dealt d;
    double resident = 0;
    for (std::size_t k = 0; k < v.away.size(); ++k) {
      resident += kept_[k];
      if (is_last(v, k)) continue;
      const double cost = least_back(v, v.away[k], copy_of(v), v.away[k].first);
      d.cost += must_come(v, k) ? cost : std::min(cost, kept_[k]);
    }
    d.resident = resident <= d.cost;
    if (d.resident) d.cost = resident;
    return d;
  }
  static bool must_come(const value& v, std::size_t k) { return k == 0 && v.from_home; }
  spent how_clean(const value& v, const dealt& d, std::size_t k) const {
    const stretch& s = v.away[k];
    if (d.resident) return {s.last, s.last};
    if (is_last(v, k)) return {s.first, s.last};
    const double cost = least_back(v, s, copy_of(v), s.first);
    if (!must_come(v, k) && cost >= held(v, s.first, s.last)) return {s.last, s.last};
    return {s.first, first_back(v, s, copy_of(v), s.first, cost), true};
  }

  // A copy out, the stretch before the end of which it takes place, and what that comes to without the value.
  struct copy_out {
    std::size_t at = 0, before = 0;
    double price = 0, away = 0;
  };

  const value* v_ = nullptr;
  std::vector<double> kept_, away_, stays_;  // per stretch: kept; gone from its start; best without copies
  std::vector<copy_out> copies_;
  std::vector<std::pair<std::size_t, double>> rest_;
};

class lagrangian : dealer {
 public:
  lagrangian(const model& m, allowed what) : dealer(m, what) {
    moved_.byte.resize(2 * m.count);
    moved_.of_lane.resize(2 * m.count + 1);
    plain_.resize(m.values.size());
    mixed_.resize(m.values.size());
  }

  // The least that all plans come to at these prices; a subgradient of it in moved().
  double at(const prices& x) {
    set(x);
    std::vector<double> gain(m_.count, 0);
    for (std::size_t o = 0; o < m_.count; ++o) gain[o] = -m_.again[o] * least_[o];
    double sum = 1;
    for (std::size_t v = 0; v < m_.values.size(); ++v) {
      look_at(m_.values[v]);
      plain_[v] = deal(false);
      sum += plain_[v].cost;
      if (!what_.repeats || !may_repeat(m_.values[v])) continue;
      mixed_[v] = deal(true);
      gain[m_.values[v].producer] += plain_[v].cost - mixed_[v].cost;
    }
    std::vector<bool> chosen(m_.count, false);
    if (what_.repeats) chosen = best_closure(gain, m_.needs);
    for (std::size_t o = 0; o < m_.count; ++o) sum -= chosen[o] ? gain[o] : 0;
    for (std::size_t i = 0; i < m_.fixed.size(); ++i) sum -= x.byte[i] * (1 - m_.fixed[i]);
    for (std::size_t o = 0; o < m_.count; ++o)
      sum -= m_.time[o] * (x.of_lane[2 * o + 1][out] + x.of_lane[2 * o + 1][in]);
    note_moved(chosen);
    return sum;
  }
  const prices& moved() const { return moved_; }

 private:
  static bool may_repeat(const value& v) { return std::ranges::any_of(v.away, &stretch::again); }

  void note_moved(const std::vector<bool>& chosen) {
    std::vector<double> change(2 * m_.count + 1, 0);
    for (auto& l : moved_.of_lane) l = {0, 0, 0};
    for (std::size_t o = 0; o < m_.count; ++o) {
      if (chosen[o]) moved_.of_lane[least_at_[o]][again] += m_.again[o];
    }
    for (std::size_t v = 0; v < m_.values.size(); ++v) {
      const value& x = m_.values[v];
      const bool repeats = what_.repeats && may_repeat(x) && chosen[x.producer];
      note_moved(x, repeats ? mixed_[v] : plain_[v], change);
    }
    double here = 0;
    for (std::size_t i = 0; i < m_.fixed.size(); ++i) {
      here += change[i];
      moved_.byte[i] = here + m_.fixed[i] - 1;
    }
    for (std::size_t o = 0; o < m_.count; ++o) {
      for (const lane_index l : {out, in}) moved_.of_lane[2 * o + 1][l] -= m_.time[o];
    }
  }

  void note_moved(const value& v, const dealt& d, std::vector<double>& change) {
    const auto holds = [&](std::size_t begin, std::size_t end) {
      if (begin >= end) return;
      change[begin] += v.bytes;
      change[end] -= v.bytes;
    };
    if (d.out_in != none) moved_.of_lane[d.out_at][out] += v.out;
    for (std::size_t k = 0; k < v.away.size(); ++k) {
      const spent s = how(v, d, k);
      holds(v.away[k].first, std::min(s.leaves, v.away[k].last));
      holds(std::max(s.back, s.leaves), v.away[k].last);
      if (s.copied_in) moved_.of_lane[s.back][in] += v.in;
      if (!s.repeated) continue;
      moved_.of_lane[s.back][again] += m_.again[v.producer];
      if (s.counted) moved_.of_lane[least_at_[v.producer]][again] -= m_.again[v.producer];
    }
  }

  std::vector<dealt> plain_, mixed_;
  prices moved_;
};

// The nearest point of which nothing is negative and all add up to 1.
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

// Steps along smoothed subgradients, towards a target that comes nearer where it is not reached.
class ascent {
 public:
  ascent(const model& m, allowed what, prices start)
      : m_(m), of_(m, what), best_(std::move(start)), lanes_(what.swaps ? static_cast<double>(m.count) : 0) {}

  double run(std::size_t steps) {
    double value = of_.at(best_), hope = 0.1;
    prices x = best_, along = of_.moved();
    double here = value;
    int failed = 0;
    for (std::size_t i = 0; i < steps && hope > 1e-4; ++i) {
      const double length = size_of(along);
      if (length < 1e-18) break;
      step(x, along, std::max(0.0, value + hope - here) / length);
      here = of_.at(x);
      if (here > value) {
        failed = here > value + hope / 4 ? 0 : failed + 1;
        value = here;
        best_ = x;
      } else {
        ++failed;
      }
      smooth(along, of_.moved());
      constexpr int patience = 12;
      if (failed < patience) continue;
      failed = 0;
      hope /= 2;
      x = best_;
      here = of_.at(x);
      along = of_.moved();
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
        x.of_lane[i][again] = 0;
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

  const model& m_;
  lagrangian of_;
  prices best_;
  double lanes_;  // a step for lanes is so much longer: each has a small part of the time
};

prices prices_from(const model& m, std::size_t loss, const first_prices& start, double budget) {
  prices x;
  x.byte.assign(2 * m.count, 0);
  x.of_lane.assign(2 * m.count + 1, {0, 0, 0});
  if (2 * loss < x.byte.size()) x.byte[2 * loss] = start.byte * budget / m.unit;
  for (std::size_t i = 0; i < x.of_lane.size(); ++i) {
    const bool before = i <= 2 * loss;
    x.of_lane[i][out] = before ? std::min(1.0, start.out) : 0;
    x.of_lane[i][in] = before ? 0 : std::min(1.0, start.in);
    if (i % 2 == 0) x.of_lane[i][again] = 1 - x.of_lane[i][out] - x.of_lane[i][in];
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
    for (const stretch& s : v.away) size += s.last - s.first + 1;
  }
  const auto loss = static_cast<std::size_t>(uses_of(p.network, order).loss);
  constexpr std::size_t work = 20'000'000, least = 20, most = 400;
  ascent up(m, what, prices_from(m, loss, start, static_cast<double>(p.budget)));
  const double value = up.run(std::clamp(work / size, least, most));
  constexpr double rounding = 1e-9;
  return static_cast<nanoseconds>(std::floor(std::max(1.0, value - rounding) * m.unit));
}

}  // namespace um
