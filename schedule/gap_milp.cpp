#include "schedule/gap_milp.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace um {
namespace {

using column = mixed_program::column;
using term = mixed_program::term;
using terms = std::vector<term>;

constexpr double ns_a_unit = 1000, bytes_a_unit = 1 << 20;  // so that factors are near 1

double in_units(nanoseconds time) {
  return static_cast<double>(time) / ns_a_unit;
}
double in_units(byte_count bytes) {
  return static_cast<double>(bytes) / bytes_a_unit;
}

// A gap whose part may be away; per slot from `first` on, columns.
struct absence_of {
  std::uint32_t gap = 0;
  std::size_t first = 0;
  std::vector<column> given, taken;          // room given up by then, and taken back
  std::vector<std::optional<column>> again;  // computed again in that slot; one more, before its next use
  std::optional<column> swapped;
};

// The program so far, and what every layer of it asks. Each layer adds its columns and rows.
class slot_model {
 public:
  const mixed_program& program() const { return m_; }

 protected:
  slot_model(const problem& p, const use_table& uses, const std::vector<gap>& gaps, const forecaster& costs,
             std::span<const byte_count> live, const gap_program& what)
      : g_(p.network), on_(p.on), uses_(uses), gaps_(gaps), costs_(costs), live_(live), what_(what) {
    make_slots();
    of_gap_.assign(gaps.size(), none);
    staged_.resize(g_.tensors.size());
  }

  static constexpr std::size_t none = ~std::size_t{0};

  tensor_id tensor_of(const gap& e) const { return uses_.parts[e.part].what; }
  byte_count bytes_of(const gap& e) const { return uses_.parts[e.part].bytes; }
  role use_of(const gap& e) const { return g_.tensors[tensor_of(e)].use; }
  std::size_t slot_of(position at) const { return slot_[static_cast<std::size_t>(at)]; }
  std::size_t slots() const { return time_.size(); }
  bool starts(const gap& e) const { return e.last < 0; }
  bool ends(const gap& e) const { return e.next >= uses_.end(); }

  void make_slots() {
    nanoseconds sum = 0;
    for (position at = 0; at < uses_.end(); ++at) sum += costs_.time_of(at);
    const bool one_each = static_cast<std::size_t>(uses_.end()) <= what_.slots;
    const nanoseconds longest = one_each ? 0 : sum / static_cast<nanoseconds>(what_.slots);
    for (position at = 0; at < uses_.end(); ++at) {
      if (time_.empty() || time_.back() + costs_.time_of(at) > longest) {
        time_.push_back(0);
        begin_.push_back(at);
      }
      time_.back() += costs_.time_of(at);
      slot_.push_back(time_.size() - 1);
    }
    for (std::size_t s = 0; s <= slots(); ++s)  // the last: behind everything
      stall_.push_back(m_.add_column(1, 0, mixed_program::no_limit));
    m_.offset = in_units(sum);
    for (auto* lane : {&in_, &out_, &in_stall_, &out_stall_, &computed_again_}) lane->resize(slots() + 1);
    transient_.resize(slots());
  }

  const graph& g_;
  const machine& on_;
  const use_table& uses_;
  const std::vector<gap>& gaps_;
  const forecaster& costs_;
  std::span<const byte_count> live_;
  const gap_program& what_;
  mixed_program m_;
  std::vector<std::size_t> slot_;  // per position
  std::vector<position> begin_;    // per slot
  std::vector<nanoseconds> time_;
  std::vector<column> stall_;  // before each slot, and behind the last
  std::vector<terms> in_, out_, in_stall_, out_stall_, computed_again_, transient_;  // per slot
  std::vector<std::uint32_t> candidates_;
  std::vector<absence_of> away_;
  std::vector<std::size_t> of_gap_;            // into away_
  std::vector<std::optional<column>> staged_;  // per tensor
  std::map<std::pair<position, std::size_t>, column> runs_;
};

// What leaves and comes back.
class leaving_model : public slot_model {
 protected:
  using slot_model::slot_model;

  // What is large enough, and away while there is too little room; with all gaps of a tensor that then starts
  // or ends at home.
  void find_candidates() {
    const auto covers = [&](const gap& e) {
      for (position at = e.last + 1; at < e.next; ++at) {
        if (live_[static_cast<std::size_t>(at)] > what_.room) return true;
      }
      return false;
    };
    std::vector<bool> some(g_.tensors.size(), false), wanted(gaps_.size(), false);
    for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
      const gap& e = gaps_[x];
      wanted[x] = bytes_of(e) >= what_.smallest && (what_.recomputes || covers(e)) &&
                  (what_.swaps || (e.again && !starts(e) && !ends(e)));
      some[tensor_of(e)] = some[tensor_of(e)] || (wanted[x] && what_.swaps);
    }
    for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
      const gap& e = gaps_[x];
      if (wanted[x] || (some[tensor_of(e)] && (starts(e) || ends(e)))) candidates_.push_back(x);
    }
  }

  // Whether a tensor that starts or ends at home lies there.
  column staged(tensor_id t) {
    if (!staged_[t]) staged_[t] = m_.add_choice();
    return *staged_[t];
  }

  void add_absence(std::uint32_t x) {
    const gap& e = gaps_[x];
    of_gap_[x] = away_.size();
    absence_of& a = away_.emplace_back();
    a.gap = x;
    const std::size_t count = e.last + 1 < e.next ? slot_of(e.next - 1) - slot_of(e.last + 1) + 1 : 0;
    a.first = slot_of(std::min(e.last + 1, uses_.end() - 1));
    for (std::size_t i = 0; i < count; ++i) {
      a.given.push_back(starts(e) ? staged(tensor_of(e)) : m_.add_choice());
      if (!starts(e) && i > 0) m_.at_least({{a.given[i], 1}, {a.given[i - 1], -1}}, 0);
      if (ends(e)) continue;
      a.taken.push_back(m_.add_choice());
      if (i > 0) m_.at_least({{a.taken[i], 1}, {a.taken[i - 1], -1}}, 0);
      m_.at_least({{a.given[i], 1}, {a.taken[i], -1}}, 0);
    }
    const bool at_home_at_ends = persists(use_of(e)) || survives(use_of(e));
    if (starts(e) || ends(e)) {
      if (!a.given.empty() && ends(e)) m_.at_most({{a.given.back(), 1}, {staged(tensor_of(e)), -1}}, 0);
      a.swapped = staged(tensor_of(e));
    } else if (what_.swaps && on_.link_to_device_bytes_per_s > 0 && on_.link_to_host_bytes_per_s > 0) {
      a.swapped = m_.add_share();
      if (at_home_at_ends) m_.at_most({{*a.swapped, 1}, {staged(tensor_of(e)), -1}}, 0);
    }
    a.again.resize(count + 1);
    if (what_.recomputes && e.again && !starts(e) && !ends(e)) {
      for (auto& c : a.again) c = m_.add_choice();
    }
    if (!starts(e) && !ends(e)) {  // given up: swapped or computed again
      terms how{{a.given.back(), -1}};
      if (a.swapped) how.emplace_back(*a.swapped, 1);
      for (const auto& c : a.again) {
        if (c) how.emplace_back(*c, 1);
      }
      m_.add_row(how, 0, 0);
    }
    if (a.swapped && !ends(e)) add_way_in(a);
    if (a.swapped && !starts(e) && !e.at_home) add_way_out(a, x);
  }

  // In each slot while there is room, or while the next use waits.
  void add_way_in(const absence_of& a) {
    const gap& e = gaps_[a.gap];
    const double time = in_units(costs_.time_of_copy(bytes_of(e), lane::to_device));
    const column late = m_.add_share();
    terms sum{{*a.swapped, -1}, {late, 1}};
    for (std::size_t i = 0; i < a.taken.size(); ++i) {
      const column share = m_.add_share();
      m_.at_least({{a.taken[i], 1}, {share, -1}}, 0);
      in_[a.first + i].emplace_back(share, time);
      sum.emplace_back(share, 1);
    }
    m_.add_row(sum, 0, 0);
    in_[slot_of(e.next)].emplace_back(late, time);
    in_stall_[slot_of(e.next)].emplace_back(late, time);
  }

  // From the slot after its producer on; room is given up when it is over. A value that left before is there.
  void add_way_out(const absence_of& a, std::uint32_t x) {
    const gap& e = gaps_[a.gap];
    const double time = in_units(costs_.time_of_copy(bytes_of(e), lane::to_host));
    terms there;
    for (std::uint32_t before = x; before-- > 0 && gaps_[before].part == e.part;) {
      const std::size_t i = of_gap_[before];
      if (gaps_[before].producer == e.producer && i != none && away_[i].swapped)
        there.emplace_back(*away_[i].swapped, 1);
    }
    for (const auto& c : a.again) {
      if (c) there.emplace_back(*c, 1);
    }
    const position made = std::min(e.producer + 1, uses_.end());
    std::size_t s = made < uses_.end() ? slot_of(made) : slots();
    const column early = m_.add_share();  // while the slot waits for it
    out_[s].emplace_back(early, time);
    out_stall_[s].emplace_back(early, time);
    there.emplace_back(early, 1);
    for (; s < a.first + a.given.size(); ++s) {
      if (s >= a.first) {
        terms row = there;
        row.emplace_back(a.given[s - a.first], -1);
        m_.at_least(std::move(row), 0);
      }
      const column share = m_.add_share();
      out_[s].emplace_back(share, time);
      there.emplace_back(share, 1);
    }
    if (!ends(e)) return;
    const column late = m_.add_share();
    out_[slots()].emplace_back(late, time);
    there.emplace_back(late, 1);
    there.emplace_back(*a.swapped, -1);
    m_.at_least(std::move(there), 0);
  }
};

// What is computed again, and what that needs.
class repeating_model : public leaving_model {
 protected:
  using leaving_model::leaving_model;

  // Taken back: swapped, or computed again by then.
  void add_again(std::size_t i) {
    const absence_of& a = away_[i];
    if (!a.again.front()) return;
    const gap& e = gaps_[a.gap];
    terms so_far;
    for (std::size_t s = 0; s < a.again.size(); ++s) {
      const std::size_t where = s < a.taken.size() ? a.first + s : slot_of(e.next);
      m_.at_least({{run(e.producer, where), 1}, {*a.again[s], -1}}, 0);
      if (s == a.taken.size()) break;
      so_far.emplace_back(*a.again[s], -1);
      terms row = so_far;
      row.emplace_back(a.taken[s], 1);
      m_.at_least(row, 0);
      if (a.swapped) row.emplace_back(*a.swapped, -1);
      m_.at_most(std::move(row), 0);
    }
  }

  // Whether what stands at `by` is computed again before slot `s`: what it reads must be there then.
  column run(position by, std::size_t s) {
    const auto known = runs_.find({by, s});
    if (known != runs_.end()) return known->second;
    const column c = m_.add_share();
    runs_.emplace(std::pair{by, s}, c);
    computed_again_[s].emplace_back(c, in_units(costs_.time_again(by)));
    for (const touched_part& x : uses_.touched_again(by)) {
      if (x.mode != access_mode::write) need(c, x.which, by, s);
      if (x.mode != access_mode::read) hold(c, x.which, s);
    }
    return c;
  }

  // The gap of a part that is open before slot `s`; none where it is used there or dead.
  std::size_t open_gap(part_id p, position at) const {
    const auto part = [](const gap& e) { return e.part; };
    for (const gap& e : std::ranges::equal_range(gaps_, p, {}, part)) {
      if (e.last < at && at < e.next) return static_cast<std::size_t>(&e - gaps_.data());
    }
    return none;
  }
  bool is_alive(part_id p, position at) const {
    const std::vector<use>& all = uses_.of_part[p];
    const role what = g_.tensors[uses_.parts[p].what].use;
    return (persists(what) || all.front().at <= at) && (survives(what) || at <= all.back().at);
  }

  void need(column c, part_id p, position by, std::size_t s) {
    const position at = begin_[s];
    const std::vector<use>& all = uses_.of_part[p];
    position made = -1;
    for (const use& u : all) {
      if (u.at < by && u.mode != access_mode::read) made = u.at;
    }
    const std::size_t x = open_gap(p, at);
    if (is_alive(p, at) && (x == none || of_gap_[x] == none)) return;
    terms row{{c, -1}};
    double there = 0;
    if (is_alive(p, at)) {
      const absence_of& a = away_[of_gap_[x]];
      if (s < a.first || s >= a.first + a.given.size()) return;
      there = 1;
      row.emplace_back(a.given[s - a.first], -1);
      if (!a.taken.empty()) row.emplace_back(a.taken[s - a.first], 1);
      if (gaps_[x].again && made >= 0) row.emplace_back(run(made, s), 1);
    } else if (made >= 0) {
      row.emplace_back(run(made, s), 1);
    }
    m_.at_least(std::move(row), -there);
  }

  // What it writes takes room, unless that counts already.
  void hold(column c, part_id p, std::size_t s) {
    const position at = begin_[s];
    const double bytes = in_units(uses_.parts[p].bytes);
    const std::size_t x = open_gap(p, at);
    if (is_alive(p, at) && (x == none || of_gap_[x] == none)) return;
    transient_[s].emplace_back(c, -bytes);
    if (!is_alive(p, at)) return;
    const absence_of& a = away_[of_gap_[x]];
    if (s < a.first + a.taken.size() && s >= a.first && a.again.front())
      transient_[s].emplace_back(*a.again[s - a.first], bytes);
  }
};

class modelling : public repeating_model {
 public:
  modelling(const problem& p, const use_table& uses, const std::vector<gap>& gaps, const forecaster& costs,
            std::span<const byte_count> live, const gap_program& what)
      : repeating_model(p, uses, gaps, costs, live, what) {
    find_candidates();
    for (const std::uint32_t x : candidates_) add_absence(x);
    for (std::size_t i = 0; i < away_.size(); ++i) add_again(i);
    add_memory();
    add_lanes();
  }

  std::vector<decision> decisions_of(const std::vector<double>& x) const {
    std::vector<decision> all(gaps_.size());
    for (const absence_of& a : away_) {
      const gap& e = gaps_[a.gap];
      const auto is = [&](column c) { return x[c] > 0.5; };
      const auto begins = [&](std::size_t i) { return std::max(e.last + 1, begin_[a.first + i]); };
      const auto first = [&](const std::vector<column>& set) {
        return static_cast<std::size_t>(std::ranges::find_if(set, is) - set.begin());
      };
      decision& d = all[a.gap];
      for (std::size_t i = 0; i < a.again.size(); ++i) {
        if (a.again[i] && is(*a.again[i]))
          d = {choice::again, e.last, i < a.taken.size() ? begins(i) : e.next};
      }
      if (d.what == choice::again) continue;
      const std::size_t leaves = first(a.given), returns = first(a.taken);
      if (a.given.empty() ? !is(*staged_[tensor_of(e)]) : leaves == a.given.size()) continue;
      d = {choice::swap, a.given.empty() ? e.last : begins(leaves) - 1,
           returns < a.taken.size() ? begins(returns) : e.next};
    }
    return all;
  }

  terms start_from(std::span<const decision> decisions) const {
    terms start;
    std::vector<bool> staged(g_.tensors.size(), false);
    for (const absence_of& a : away_) {
      const gap& e = gaps_[a.gap];
      const decision& d = decisions[a.gap];
      if (d.what == choice::swap) staged[tensor_of(e)] = true;
      const position leaves = d.what == choice::swap ? d.leave : e.last;
      for (std::size_t i = 0; i < a.given.size(); ++i) {
        const position begins = std::max(e.last + 1, begin_[a.first + i]);
        const bool gone = d.what != choice::keep && begins > leaves;
        if (e.last >= 0) start.emplace_back(a.given[i], gone ? 1 : 0);
        if (!a.taken.empty()) start.emplace_back(a.taken[i], gone && begins >= d.back ? 1 : 0);
      }
    }
    for (tensor_id t = 0; t < staged_.size(); ++t) {
      if (staged_[t]) start.emplace_back(*staged_[t], staged[t] ? 1 : 0);
    }
    return start;
  }

 private:
  void add_memory() {
    std::vector<terms> given_up(uses_.order.size());
    for (const absence_of& a : away_) {
      const gap& e = gaps_[a.gap];
      const double bytes = in_units(bytes_of(e));
      for (position at = e.last + 1; at < e.next; ++at) {
        const std::size_t i = slot_of(at) - a.first;
        given_up[static_cast<std::size_t>(at)].emplace_back(a.given[i], bytes);
        if (!a.taken.empty()) given_up[static_cast<std::size_t>(at)].emplace_back(a.taken[i], -bytes);
      }
    }
    for (std::size_t at = 0; at < given_up.size(); ++at) {
      terms& row = given_up[at];
      const std::size_t s = slot_[at];
      if (begin_[s] == static_cast<position>(at))
        row.insert(row.end(), transient_[s].begin(), transient_[s].end());
      const double over = in_units(live_[at]) - in_units(what_.room);
      double least = 0;
      for (const term& t : row) least += std::min(0.0, t.second);
      if (over > least) m_.at_least(std::move(row), over);
    }
  }

  void add_lanes() {
    for (std::size_t s = 0; s <= slots(); ++s) {
      const double time = s < slots() ? in_units(time_[s]) : 0;
      const auto within = [&](terms row, double limit) {
        if (row.empty()) return;
        row.emplace_back(stall_[s], -1);
        m_.at_most(std::move(row), limit);
      };
      within(in_[s], time);
      within(out_[s], time);
      within(in_stall_[s], 0);
      within(out_stall_[s], 0);
      within(computed_again_[s], 0);
    }
  }
};

}  // namespace

gap_solution minimum_of(const problem& p, const use_table& uses, const std::vector<gap>& gaps,
                        const forecaster& costs, std::span<const byte_count> live, const gap_program& what,
                        const mixed_effort& effort, std::span<const decision> start) {
  const modelling model(p, uses, gaps, costs, live, what);
  const terms first = start.empty() ? terms{} : model.start_from(start);
  const mixed_solution solved = minimum_of(model.program(), effort, first);
  gap_solution s{solved.found,
                 solved.infeasible,
                 0,
                 0,
                 {},
                 solved.nodes,
                 model.program().cost.size(),
                 model.program().row_least.size()};
  if (std::isfinite(solved.bound)) s.bound = std::llround(std::max(solved.bound, 0.0) * ns_a_unit);
  if (!solved.found) return s;
  s.time = std::llround(solved.value * ns_a_unit);
  s.decisions = model.decisions_of(solved.x);
  return s;
}

}  // namespace um
