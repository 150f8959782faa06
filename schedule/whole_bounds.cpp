#include "schedule/whole_bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "schedule/closure.hpp"
#include "schedule/uses.hpp"

namespace um {
namespace {

// Times are parts of the operators' time, bytes parts of the budget. Interval 2 p is the wait before position
// p, 2 p + 1 its compute, 2 n the wait behind everything. Instant i lies between intervals i and i + 1.
struct stretch {
  std::size_t first = 0, last = 0;  // instants at which it may be away: [first, last)
  bool again = false;
};

// A value of a part: the gaps behind one producer.
struct value {
  double bytes = 0, out = 0, in = 0;  // of the budget; times of its copies
  std::size_t made = 0;               // the first interval in which it can leave
  std::size_t producer = 0;           // a position, if `again` for any
  bool from_home = false;             // it is at home at the start: with a stretch before its first use
  bool stays_home = false;            // the last stretch ends with the iteration
  bool clean = false;                 // it leaves without a copy
  std::vector<stretch> away;
};

struct model {
  std::size_t count = 0;      // of positions
  double unit = 0;            // ns
  std::vector<double> time;   // per position
  std::vector<double> fixed;  // per instant: what is there whatever is decided
  std::vector<value> values;
  std::vector<std::vector<std::size_t>> needs;  // positions that must run again for one
  std::vector<int> large_outputs;               // per position: values that can be computed again there
  bool feasible = true;
  bool all_fits = true;  // nothing need be away
};

class modelling {
 public:
  modelling(const problem& p, const std::vector<compute>& order, allowed what)
      : p_(p), g_(p.network), what_(what), uses_(uses_of(p.network, order)), gaps_(gaps_of(g_, uses_)) {
    m_.count = order.size();
    for (const compute& c : order) {
      m_.time.push_back(static_cast<double>(p.costs[c.what].time));
      m_.unit += m_.time.back();
    }
    for (double& t : m_.time) t /= m_.unit;
    m_.fixed.assign(2 * m_.count, 0);
    add_operands();
    add_values();
    add_needs();
    constexpr double rounding = 1e-9;
    m_.feasible = m_.fixed.empty() || std::ranges::max(m_.fixed) <= 1 + rounding;
    std::vector<double> all = m_.fixed;
    for (const value& v : m_.values) {
      for (const stretch& s : v.away) {
        for (std::size_t i = s.first; i < s.last; ++i) all[i] += v.bytes;
      }
    }
    m_.all_fits = all.empty() || std::ranges::max(all) <= 1 + rounding;
  }
  model take() { return std::move(m_); }

 private:
  double bytes_of(part_id part) const {
    return static_cast<double>(uses_.parts[part].bytes) / static_cast<double>(p_.budget);
  }
  bool is_small(part_id part) const { return bytes_of(part) < 1.0 / 2000; }
  role use_of(part_id part) const { return g_.tensors[uses_.parts[part].what].use; }

  // Two parts of which one may take the other's place.
  double shared_at(position at) const {
    const op& o = g_.ops[uses_.order[static_cast<std::size_t>(at)].what];
    if (!o.alias) return 0;
    const part_id from = uses_.first_part[o.in[o.alias->input]],
                  to = uses_.first_part[o.out[o.alias->output]];
    const bool later = std::ranges::any_of(
        gaps_, [&](const gap& e) { return e.part == from && e.last == at && !(e.again && what_.repeats); });
    const bool next = std::ranges::any_of(uses_.of_part[from], [&](const use& u) { return u.at == at + 1; });
    if (from == to || later || next || is_small(from)) return 0;
    return std::min(bytes_of(from), bytes_of(to));
  }

  void add_operands() {
    for (position at = 0; at < uses_.end(); ++at) {
      double sum = -shared_at(at);
      for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(at)])
        sum += is_small(x.which) ? 0 : bytes_of(x.which);
      for (const int half : {0, 1}) m_.fixed[static_cast<std::size_t>(2 * at + half)] += sum;
    }
  }

  void add_values() {
    const auto rate = [](std::uint64_t r) { return r == 0 ? 0.0 : 1e9 / static_cast<double>(r); };
    for (auto at = gaps_.begin(); at != gaps_.end();) {
      const auto same = [&](const gap& e) { return e.part == at->part && e.producer == at->producer; };
      const auto end = std::find_if_not(at, gaps_.end(), same);
      if (!is_small(at->part)) {
        value v;
        const auto bytes = static_cast<double>(uses_.parts[at->part].bytes);
        v.bytes = bytes_of(at->part);
        v.out = bytes * rate(p_.on.link_to_host_bytes_per_s) / m_.unit;
        v.in = bytes * rate(p_.on.link_to_device_bytes_per_s) / m_.unit;
        v.made = static_cast<std::size_t>(2 * (at->producer + 1));
        v.producer = static_cast<std::size_t>(std::max(at->producer, 0));
        v.clean = at->producer < 0;
        v.from_home = at->last < 0;
        v.stays_home = std::prev(end)->next >= uses_.end();
        for (auto e = at; e != end; ++e) {
          v.away.push_back({static_cast<std::size_t>(2 * (e->last + 1)),
                            static_cast<std::size_t>(2 * e->next),
                            what_.repeats && e->again && e->last >= 0 && e->next < uses_.end()});
        }
        add(std::move(v));
      }
      at = end;
    }
  }

  // What must stay counts as fixed.
  void add(value v) {
    const bool some = std::ranges::any_of(v.away, &stretch::again);
    for (stretch& s : v.away) {
      if (what_.swaps || s.again) continue;
      for (std::size_t i = s.first; i < s.last; ++i) m_.fixed[i] += v.bytes;
      s.last = s.first;
    }
    if (what_.swaps || some) m_.values.push_back(std::move(v));
  }

  // What is computed again needs what is dead by then; of the rest it is not known when it is there.
  void add_needs() {
    m_.needs.resize(m_.count);
    m_.large_outputs.assign(m_.count, 0);
    std::vector<bool> has_gaps(uses_.parts.size(), false);
    for (const gap& e : gaps_) has_gaps[e.part] = true;
    for (const value& v : m_.values) {
      if (std::ranges::any_of(v.away, &stretch::again)) ++m_.large_outputs[v.producer];
    }
    for (position at = 0; at < uses_.end(); ++at) {
      for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(at)]) {
        if (x.mode != access_mode::read || has_gaps[x.which] || persists(use_of(x.which))) continue;
        const std::vector<use>& all = uses_.of_part[x.which];
        const bool once = all.front().at < at &&
                          std::ranges::count(all, access_mode::read, &use::mode) == std::ssize(all) - 1;
        if (once) m_.needs[static_cast<std::size_t>(at)].push_back(static_cast<std::size_t>(all.front().at));
      }
    }
  }

  const problem& p_;
  const graph& g_;
  allowed what_;
  use_table uses_;
  std::vector<gap> gaps_;
  model m_;
};

enum lane_index : std::uint8_t { out, in, again };

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

// The cheapest for a value.
struct dealt {
  double cost = 0;
  std::vector<spent> how;
  std::size_t out_at = 0;
  bool copied_out = false;
};

// What is cheapest for one value at given prices.
class dealer {
 protected:
  dealer(const model& m, allowed what) : m_(m), what_(what) {}

  static bool may_repeat(const value& v) { return std::ranges::any_of(v.away, &stretch::again); }
  double held(const value& v, std::size_t begin, std::size_t end) const {
    return end <= begin ? 0 : v.bytes * (sum_[end] - sum_[begin]);
  }

  void add_up_prices() {
    sum_.assign(1, 0);
    for (const double b : x_->byte) sum_.push_back(sum_.back() + b);
    least_.assign(m_.count, 1);
    least_at_.assign(m_.count, 2 * m_.count);
    double least = std::numeric_limits<double>::max();
    std::size_t where = 2 * m_.count;
    for (std::size_t o = m_.count; o-- > 0;) {
      const double here = x_->of_lane[2 * (o + 1)][again];
      if (o + 1 < m_.count && here < least) {
        least = here;
        where = 2 * (o + 1);
      }
      if (where < 2 * m_.count) least_[o] = least;
      least_at_[o] = where;
    }
  }

  // From `from` on it may be away: it comes back in the interval that costs least.
  std::pair<double, std::size_t> cheapest_back(const value& v, const stretch& s, std::size_t from) const {
    std::pair<double, std::size_t> best{std::numeric_limits<double>::max(), s.last};
    for (std::size_t i = std::max(from, s.first); i <= s.last; ++i) {
      const double cost = held(v, i, s.last) + v.in * x_->of_lane[i][in];
      if (cost < best.first) best = {cost, i};
    }
    return best;
  }

  // Without a copy: kept, or computed again for less.
  std::pair<double, spent> without_copies(const value& v, const stretch& s, bool repeats,
                                          bool counted) const {
    std::pair<double, spent> best{held(v, s.first, s.last), {s.last, s.last}};
    if (!repeats || !s.again) return best;
    const double time = m_.time[v.producer], beyond = counted ? least_[v.producer] : 0;
    for (std::size_t i = s.first; i <= s.last; i += 2) {
      const double cost = held(v, i, s.last) + time * (x_->of_lane[i][again] - beyond);
      if (cost < best.first) best = {cost, {s.first, i, false, true, counted}};
    }
    return best;
  }

  // The first run of a producer counts with the closure, be it for any of the stretches; all of them where it
  // makes several values, which may share runs.
  void deal_with(const value& v, bool repeats, dealt& d) const {
    if (v.clean) return deal_with_clean(v, d);
    constexpr std::size_t all = ~std::size_t{0};
    if (!repeats || m_.large_outputs[v.producer] > 1) return deal_with(v, repeats, all, d);
    bool found = false;
    dealt other;
    for (std::size_t k = 0; k < v.away.size(); ++k) {
      if (!v.away[k].again) continue;
      deal_with(v, repeats, k, found ? other : d);
      if (found && other.cost < d.cost) std::swap(d, other);
      found = true;
    }
  }

  // `counted`: the stretch of which a run counts with the closure, or all.
  void deal_with(const value& v, bool repeats, std::size_t counted, dealt& d) const {
    const std::size_t count = v.away.size();
    d.how.assign(count, {});
    d.copied_out = false;
    d.cost = 0;
    std::vector<std::pair<double, spent>> stays(count);
    for (std::size_t k = 0; k < count; ++k) {
      stays[k] = without_copies(v, v.away[k], repeats, counted == k || counted >= count);
      d.cost += stays[k].first;
      d.how[k] = stays[k].second;
    }
    if (what_.swaps) try_copies(v, stays, d);
  }

  // At home from the start: it lies on the device throughout, or comes in and goes for nothing.
  void deal_with_clean(const value& v, dealt& d) const {
    d.how.assign(v.away.size(), {});
    d.copied_out = false;
    double resident = 0, staged = 0;
    for (std::size_t k = 0; k < v.away.size(); ++k) {
      const stretch& s = v.away[k];
      const double stays = held(v, s.first, s.last);
      resident += stays;
      if (k + 1 == v.away.size() && v.stays_home) {
        d.how[k] = {s.first, s.last};
        continue;
      }
      const auto [cost, back] = cheapest_back(v, s, s.first);
      const bool must = k == 0 && v.from_home;
      staged += must ? cost : std::min(cost, stays);
      d.how[k] = must || cost < stays ? spent{s.first, back, true} : spent{s.last, s.last};
    }
    d.cost = staged;
    if (resident > staged) return;
    d.cost = resident;
    for (std::size_t k = 0; k < v.away.size(); ++k) d.how[k] = {v.away[k].last, v.away[k].last};
  }

  // Copied out once, in some interval; from then on each stretch may go without.
  void try_copies(const value& v, const std::vector<std::pair<double, spent>>& stays, dealt& d) const {
    const std::size_t count = v.away.size();
    std::vector<std::pair<double, spent>> later(count);
    for (std::size_t k = 0; k < count; ++k) later[k] = best_away(v, k, v.away[k].first, stays[k]);
    double behind = 0;
    for (const auto& l : later) behind += l.first;
    double before = 0;
    std::size_t at = v.made;
    double best = d.cost;
    std::size_t best_at = 0, best_k = count;
    for (std::size_t k = 0; k < count; ++k) {
      behind -= later[k].first;
      const stretch& s = v.away[k];
      // What is left of this stretch once the copy is over, from its end backwards.
      std::vector<double>& rest = rest_;
      rest.assign(s.last - s.first + 1, 0);
      const bool ends = k + 1 == count && v.stays_home;
      double least = std::numeric_limits<double>::max();
      for (std::size_t i = s.last + 1; i-- > s.first;) {
        if (!ends) least = std::min(least, held(v, i, s.last) + v.in * x_->of_lane[i][in]);
        rest[i - s.first] = ends ? 0 : least;
      }
      for (; at <= s.last; ++at) {
        const double copy = v.out * x_->of_lane[at][out];
        const double here = at < s.first
                                ? later[k].first
                                : std::min(stays[k].first, held(v, s.first, at) + rest[at - s.first]);
        const double cost = before + copy + here + behind;
        if (cost < best) {
          best = cost;
          best_at = at;
          best_k = k;
        }
      }
      before += stays[k].first;
    }
    if (best_k == count) return;
    d.cost = best;
    d.copied_out = true;
    d.out_at = best_at;
    for (std::size_t k = best_k; k < count; ++k)
      d.how[k] = k > best_k ? later[k].second : best_away(v, k, best_at, stays[k]).second;
  }

  std::pair<double, spent> best_away(const value& v, std::size_t k, std::size_t from,
                                     const std::pair<double, spent>& stays) const {
    const stretch& s = v.away[k];
    if (!what_.swaps) return stays;
    const std::size_t leaves = std::max(from, s.first);
    if (k + 1 == v.away.size() && v.stays_home) {
      const double cost = held(v, s.first, leaves);
      return cost < stays.first ? std::pair{cost, spent{leaves, s.last}} : stays;
    }
    const auto [cost, back] = cheapest_back(v, s, leaves);
    const double all = cost + held(v, s.first, leaves);
    return all < stays.first ? std::pair{all, spent{leaves, back, true}} : stays;
  }

  const model& m_;
  allowed what_;
  const prices* x_ = nullptr;
  std::vector<double> sum_, least_;  // prices of bytes up to an instant; of running again, per position
  std::vector<std::size_t> least_at_;
  mutable std::vector<double> rest_;
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
    x_ = &x;
    add_up_prices();
    std::vector<double> gain(m_.count, 0);
    for (std::size_t o = 0; o < m_.count; ++o) gain[o] = -m_.time[o] * least_[o];
    double sum = 1;
    for (std::size_t v = 0; v < m_.values.size(); ++v) {
      deal_with(m_.values[v], false, plain_[v]);
      sum += plain_[v].cost;
      if (!what_.repeats || !may_repeat(m_.values[v])) continue;
      deal_with(m_.values[v], true, mixed_[v]);
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
  void note_moved(const std::vector<bool>& chosen) {
    std::vector<double> change(2 * m_.count + 1, 0);
    for (auto& l : moved_.of_lane) l = {0, 0, 0};
    for (std::size_t o = 0; o < m_.count; ++o) {
      if (chosen[o]) moved_.of_lane[least_at_[o]][again] += m_.time[o];
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
    if (d.copied_out) moved_.of_lane[d.out_at][out] += v.out;
    for (std::size_t k = 0; k < v.away.size(); ++k) {
      const spent& s = d.how[k];
      holds(v.away[k].first, std::min(s.leaves, v.away[k].last));
      holds(std::max(s.back, s.leaves), v.away[k].last);
      if (s.copied_in) moved_.of_lane[s.back][in] += v.in;
      if (!s.repeated) continue;
      moved_.of_lane[s.back][again] += m_.time[v.producer];
      if (s.counted) moved_.of_lane[least_at_[v.producer]][again] -= m_.time[v.producer];
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
  const model m = modelling(p, order, what).take();
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
