// Adds the variables of recomputations, and the constraints on their inputs.
#include <algorithm>

#include "schedule/milp/gap_model.hpp"

namespace um::milp {
namespace {

column recompute_column(gap_model& m, position by, std::size_t s);

// The gap that contains a position for this part; nothing if the part is used there or dead.
std::optional<std::size_t> find_open_gap(const gap_model& m, part_id p, position at) {
  const auto part = [](const gap& e) { return e.part; };
  for (const gap& e : std::ranges::equal_range(m.gaps, p, {}, part)) {
    if (e.last_use < at && at < e.next_use) return static_cast<std::size_t>(&e - m.gaps.data());
  }
  return std::nullopt;
}

bool is_alive(const gap_model& m, part_id p, position at) {
  const std::vector<use>& all = m.uses.uses_of_part[p];
  const role what = m.network.tensors[m.uses.parts[p].tensor].role;
  return (persists(what) || all.front().at <= at) && (survives(what) || at <= all.back().at);
}

// The gap before slot `s` in which a live part may be off the device; nothing if it is surely on the device.
std::optional<std::size_t> gap_with_absence(const gap_model& m, part_id p, std::size_t s) {
  const auto x = find_open_gap(m, p, m.slots.begin[s]);
  return x && m.absence_of_gap[*x] ? x : std::nullopt;
}

// Last position before `by` that writes the part; -1: none.
position writer_before(const gap_model& m, part_id p, position by) {
  position made = -1;
  for (const use& u : m.uses.uses_of_part[p]) {
    if (u.at < by && u.mode != access_mode::read) made = u.at;
  }
  return made;
}

// Adds the requirement that an input of a recomputation is on the device before slot `s` or is recomputed
// there as well.
void require_input(gap_model& m, column c, part_id p, position by, std::size_t s) {
  const bool alive = is_alive(m, p, m.slots.begin[s]);
  const auto x = gap_with_absence(m, p, s);
  if (alive && !x) return;
  const position made = writer_before(m, p, by);
  terms row{{c, -1}};
  double resident = 0;
  if (alive) {
    const gap_columns& a = m.absences[*m.absence_of_gap[*x]];
    if (s < a.first_slot || s >= a.first_slot + a.released.size()) return;
    resident = 1;
    row.emplace_back(a.released[s - a.first_slot], -1);
    if (!a.reacquired.empty()) row.emplace_back(a.reacquired[s - a.first_slot], 1);
    if (m.gaps[*x].is_recomputable && made >= 0) row.emplace_back(recompute_column(m, made, s), 1);
  } else if (made >= 0) {
    row.emplace_back(recompute_column(m, made, s), 1);
  }
  m.program.add_at_least(std::move(row), -resident);
}

// Counts the memory of a recomputation's output, unless the part's own columns count it.
void add_memory_of_output(gap_model& m, column c, part_id p, std::size_t s) {
  const bool alive = is_alive(m, p, m.slots.begin[s]);
  const double bytes = in_units(m.uses.parts[p].bytes);
  const auto x = gap_with_absence(m, p, s);
  if (alive && !x) return;
  m.lanes.transient_memory[s].emplace_back(c, -bytes);
  if (!alive) return;
  const gap_columns& a = m.absences[*m.absence_of_gap[*x]];
  if (s < a.first_slot + a.reacquired.size() && s >= a.first_slot && a.recompute_in_slot.front())
    m.lanes.transient_memory[s].emplace_back(*a.recompute_in_slot[s - a.first_slot], bytes);
}

// The column for whether position `by` is recomputed before slot `s`.
column recompute_column(gap_model& m, position by, std::size_t s) {
  const auto known = m.recompute_columns.find({by, s});
  if (known != m.recompute_columns.end()) return known->second;
  const column c = m.program.add_fraction();
  m.recompute_columns.emplace(std::pair{by, s}, c);
  m.lanes.recompute[s].emplace_back(c, in_units(m.costs.recompute_time(by)));
  for (const touched_part& x : m.uses.touched_by_recompute(by)) {
    if (x.mode != access_mode::write) require_input(m, c, x.part, by, s);
    if (x.mode != access_mode::read) add_memory_of_output(m, c, x.part, s);
  }
  return c;
}

// Memory may be reacquired only by a part that was swapped or has been recomputed by then.
void add_recompute_limits(gap_model& m, std::size_t i) {
  const gap_columns& a = m.absences[i];
  if (!a.recompute_in_slot.front()) return;
  const gap& e = m.gaps[a.gap];
  terms minus_recomputed;  // -1 for each recomputation up to slot s
  for (std::size_t s = 0; s < a.recompute_in_slot.size(); ++s) {
    const std::size_t where = s < a.reacquired.size() ? a.first_slot + s : m.slots.slot_of(e.next_use);
    m.program.add_at_least({{recompute_column(m, e.producer, where), 1}, {*a.recompute_in_slot[s], -1}}, 0);
    if (s == a.reacquired.size()) break;
    minus_recomputed.emplace_back(*a.recompute_in_slot[s], -1);
    terms row = minus_recomputed;
    row.emplace_back(a.reacquired[s], 1);
    m.program.add_at_least(row, 0);
    if (a.swap_share) row.emplace_back(*a.swap_share, -1);
    m.program.add_at_most(std::move(row), 0);
  }
}

}  // namespace

void add_recomputation(gap_model& m) {
  for (std::size_t i = 0; i < m.absences.size(); ++i) add_recompute_limits(m, i);
}

}  // namespace um::milp
