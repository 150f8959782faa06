// Adds the variables of parts that leave the device in a gap, and of their copies.
#include <algorithm>

#include "schedule/milp/gap_model.hpp"

namespace um::milp {
namespace {

// Whether memory is short at some position of the gap.
bool is_memory_short(const gap_model& m, const gap& e) {
  for (position at = e.last_use + 1; at < e.next_use; ++at) {
    if (m.live_at_positions[static_cast<std::size_t>(at)] > m.options.memory_bytes) return true;
  }
  return false;
}

// The gaps in which parts may leave the device: those of large parts where memory is short, and those of the
// same tensors at the start and the end of the iteration.
std::vector<std::uint32_t> gaps_that_may_leave(const gap_model& m) {
  std::vector<bool> moves(m.network.tensors.size(), false), wanted(m.gaps.size(), false);
  const auto is_at_border = [&](const gap& e) { return m.is_at_start(e) || m.is_at_end(e); };
  for (std::uint32_t x = 0; x < m.gaps.size(); ++x) {
    const gap& e = m.gaps[x];
    wanted[x] = m.bytes_of(e) >= m.options.min_part_bytes &&
                (m.options.recomputes || is_memory_short(m, e)) &&
                (m.options.swaps || (e.is_recomputable && !is_at_border(e)));
    moves[m.tensor_of(e)] = moves[m.tensor_of(e)] || (wanted[x] && m.options.swaps);
  }
  std::vector<std::uint32_t> all;
  for (std::uint32_t x = 0; x < m.gaps.size(); ++x) {
    if (wanted[x] || (moves[m.tensor_of(m.gaps[x])] && is_at_border(m.gaps[x]))) all.push_back(x);
  }
  return all;
}

// A copy in is spread over the slots in which its memory is held; the rest of the copy delays the next use.
void add_copy_in(gap_model& m, const gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const double time = in_units(m.costs.copy_time(m.bytes_of(e), lane::to_device));
  const column late_share = p.add_fraction();
  terms sum{{*a.swap_share, -1}, {late_share, 1}};
  for (std::size_t i = 0; i < a.reacquired.size(); ++i) {
    const column share = p.add_fraction();
    p.add_at_least({{a.reacquired[i], 1}, {share, -1}}, 0);
    m.lanes.copy_in[a.first_slot + i].emplace_back(share, time);
    sum.emplace_back(share, 1);
  }
  p.add_row(sum, 0, 0);
  const std::size_t next = m.slots.slot_of(e.next_use);
  m.lanes.copy_in[next].emplace_back(late_share, time);
  m.lanes.copy_in_stall[next].emplace_back(late_share, time);
}

// The earlier copies out and the recomputations of the same value: they make the copy out of this gap
// unnecessary.
terms earlier_copies(const gap_model& m, const gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  terms all;
  for (std::uint32_t before = a.gap; before-- > 0 && m.gaps[before].part == e.part;) {
    const auto& i = m.absence_of_gap[before];
    if (m.gaps[before].producer == e.producer && i && m.absences[*i].swap_share)
      all.emplace_back(*m.absences[*i].swap_share, 1);
  }
  for (const auto& c : a.recompute_in_slot) {
    if (c) all.emplace_back(*c, 1);
  }
  return all;
}

// A copy out may start in the slot after the value's producer. Memory is released when the copy has ended. A
// value that left in an earlier gap needs no copy.
void add_copy_out(gap_model& m, const gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const double time = in_units(m.costs.copy_time(m.bytes_of(e), lane::to_host));
  terms at_home = earlier_copies(m, a);
  const position made = std::min(e.producer + 1, m.uses.end());
  std::size_t s = made < m.uses.end() ? m.slots.slot_of(made) : m.slots.count();
  const column early = p.add_fraction();  // share of the copy that delays its slot
  m.lanes.copy_out[s].emplace_back(early, time);
  m.lanes.copy_out_stall[s].emplace_back(early, time);
  at_home.emplace_back(early, 1);
  for (; s < a.first_slot + a.released.size(); ++s) {
    if (s >= a.first_slot) {
      terms row = at_home;
      row.emplace_back(a.released[s - a.first_slot], -1);
      p.add_at_least(std::move(row), 0);
    }
    const column share = p.add_fraction();
    m.lanes.copy_out[s].emplace_back(share, time);
    at_home.emplace_back(share, 1);
  }
  if (!m.is_at_end(e)) return;
  const column late_share = p.add_fraction();
  m.lanes.copy_out[m.slots.count()].emplace_back(late_share, time);
  at_home.emplace_back(late_share, 1);
  at_home.emplace_back(*a.swap_share, -1);
  p.add_at_least(std::move(at_home), 0);
}

// In each gap, memory is released at most once and then reacquired at most once.
void add_memory_columns(gap_model& m, gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const std::size_t count =
      e.last_use + 1 < e.next_use ? m.slots.slot_of(e.next_use - 1) - m.slots.slot_of(e.last_use + 1) + 1 : 0;
  a.first_slot = m.slots.slot_of(std::min(e.last_use + 1, m.uses.end() - 1));
  for (std::size_t i = 0; i < count; ++i) {
    a.released.push_back(m.is_at_start(e) ? m.staged_column(m.tensor_of(e)) : p.add_binary());
    if (!m.is_at_start(e) && i > 0) p.add_at_least({{a.released[i], 1}, {a.released[i - 1], -1}}, 0);
    if (m.is_at_end(e)) continue;
    a.reacquired.push_back(p.add_binary());
    if (i > 0) p.add_at_least({{a.reacquired[i], 1}, {a.reacquired[i - 1], -1}}, 0);
    p.add_at_least({{a.released[i], 1}, {a.reacquired[i], -1}}, 0);
  }
}

void add_swap_column(gap_model& m, gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const tensor_id t = m.tensor_of(e);
  const role use = m.network.tensors[t].role;
  if (m.is_at_start(e) || m.is_at_end(e)) {
    if (!a.released.empty() && m.is_at_end(e))
      p.add_at_most({{a.released.back(), 1}, {m.staged_column(t), -1}}, 0);
    a.swap_share = m.staged_column(t);
  } else if (m.options.swaps && m.target.link_to_device_bytes_per_s > 0 &&
             m.target.link_to_host_bytes_per_s > 0) {
    a.swap_share = p.add_fraction();
    if (persists(use) || survives(use)) p.add_at_most({{*a.swap_share, 1}, {m.staged_column(t), -1}}, 0);
  }
}

void add_absence(gap_model& m, std::uint32_t x) {
  const gap& e = m.gaps[x];
  m.absence_of_gap[x] = m.absences.size();
  gap_columns& a = m.absences.emplace_back();
  a.gap = x;
  add_memory_columns(m, a);
  add_swap_column(m, a);
  const bool is_inner = !m.is_at_start(e) && !m.is_at_end(e);
  a.recompute_in_slot.resize((a.released.size()) + 1);
  if (m.options.recomputes && e.is_recomputable && is_inner) {
    for (auto& c : a.recompute_in_slot) c = m.program.add_binary();
  }
  if (is_inner) {  // a part that is released is swapped or recomputed
    terms how{{a.released.back(), -1}};
    if (a.swap_share) how.emplace_back(*a.swap_share, 1);
    for (const auto& c : a.recompute_in_slot) {
      if (c) how.emplace_back(*c, 1);
    }
    m.program.add_row(how, 0, 0);
  }
  if (a.swap_share && !m.is_at_end(e)) add_copy_in(m, a);
  if (a.swap_share && !m.is_at_start(e) && !e.has_host_copy) add_copy_out(m, a);
}

}  // namespace

void add_absences(gap_model& m) {
  for (const std::uint32_t x : gaps_that_may_leave(m)) add_absence(m, x);
}

}  // namespace um::milp
