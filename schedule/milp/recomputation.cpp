// When parts are computed again, and what that needs.
#include <algorithm>

#include "schedule/milp/gap_model.hpp"

namespace um::milp {
namespace {

column run(gap_model& m, position by, std::size_t s);

// The gap of a part that is open at a position; nothing where it is used there or dead.
std::optional<std::size_t> open_gap(const gap_model& m, part_id p, position at) {
  const auto part = [](const gap& e) { return e.part; };
  for (const gap& e : std::ranges::equal_range(m.gaps, p, {}, part)) {
    if (e.last < at && at < e.next) return static_cast<std::size_t>(&e - m.gaps.data());
  }
  return std::nullopt;
}

bool is_alive(const gap_model& m, part_id p, position at) {
  const std::vector<use>& all = m.uses.of_part[p];
  const role what = m.g.tensors[m.uses.parts[p].what].use;
  return (persists(what) || all.front().at <= at) && (survives(what) || at <= all.back().at);
}

// The gap open before slot `s` in which a live part may be away; nothing where it is certainly on the device.
std::optional<std::size_t> absence_before(const gap_model& m, part_id p, std::size_t s) {
  const auto x = open_gap(m, p, m.slots.begin[s]);
  return x && m.of_gap[*x] ? x : std::nullopt;
}

// The last position before `by` that writes the part; -1 if there is none.
position writer_before(const gap_model& m, part_id p, position by) {
  position made = -1;
  for (const use& u : m.uses.of_part[p]) {
    if (u.at < by && u.mode != access_mode::read) made = u.at;
  }
  return made;
}

// An input of a run: it is on the device before slot `s`, or is computed again there as well.
void need_input(gap_model& m, column c, part_id p, position by, std::size_t s) {
  const bool alive = is_alive(m, p, m.slots.begin[s]);
  const auto x = absence_before(m, p, s);
  if (alive && !x) return;
  const position made = writer_before(m, p, by);
  terms row{{c, -1}};
  double resident = 0;
  if (alive) {
    const gap_columns& a = m.away[*m.of_gap[*x]];
    if (s < a.first || s >= a.first + a.given.size()) return;
    resident = 1;
    row.emplace_back(a.given[s - a.first], -1);
    if (!a.taken.empty()) row.emplace_back(a.taken[s - a.first], 1);
    if (m.gaps[*x].again && made >= 0) row.emplace_back(run(m, made, s), 1);
  } else if (made >= 0) {
    row.emplace_back(run(m, made, s), 1);
  }
  m.program.at_least(std::move(row), -resident);
}

// An output of a run takes memory, unless the part's own columns count it.
void count_output(gap_model& m, column c, part_id p, std::size_t s) {
  const bool alive = is_alive(m, p, m.slots.begin[s]);
  const double bytes = in_units(m.uses.parts[p].bytes);
  const auto x = absence_before(m, p, s);
  if (alive && !x) return;
  m.lanes.transient[s].emplace_back(c, -bytes);
  if (!alive) return;
  const gap_columns& a = m.away[*m.of_gap[*x]];
  if (s < a.first + a.taken.size() && s >= a.first && a.recomputed.front())
    m.lanes.transient[s].emplace_back(*a.recomputed[s - a.first], bytes);
}

// Whether position `by` is computed again before slot `s`.
column run(gap_model& m, position by, std::size_t s) {
  const auto known = m.runs.find({by, s});
  if (known != m.runs.end()) return known->second;
  const column c = m.program.add_share();
  m.runs.emplace(std::pair{by, s}, c);
  m.lanes.recomputed[s].emplace_back(c, in_units(m.costs.time_again(by)));
  for (const touched_part& x : m.uses.touched_again(by)) {
    if (x.mode != access_mode::write) need_input(m, c, x.which, by, s);
    if (x.mode != access_mode::read) count_output(m, c, x.which, s);
  }
  return c;
}

// What is taken back was swapped, or has been computed again by then.
void add_runs(gap_model& m, std::size_t i) {
  const gap_columns& a = m.away[i];
  if (!a.recomputed.front()) return;
  const gap& e = m.gaps[a.gap];
  terms so_far;
  for (std::size_t s = 0; s < a.recomputed.size(); ++s) {
    const std::size_t where = s < a.taken.size() ? a.first + s : m.slots.of(e.next);
    m.program.at_least({{run(m, e.producer, where), 1}, {*a.recomputed[s], -1}}, 0);
    if (s == a.taken.size()) break;
    so_far.emplace_back(*a.recomputed[s], -1);
    terms row = so_far;
    row.emplace_back(a.taken[s], 1);
    m.program.at_least(row, 0);
    if (a.swapped) row.emplace_back(*a.swapped, -1);
    m.program.at_most(std::move(row), 0);
  }
}

}  // namespace

void add_recomputation(gap_model& m) {
  for (std::size_t i = 0; i < m.away.size(); ++i) add_runs(m, i);
}

}  // namespace um::milp
