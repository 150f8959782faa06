// What leaves the device in its gaps, and how it comes back by a copy.
#include <algorithm>

#include "schedule/milp/gap_model.hpp"

namespace um::milp {
namespace {

// Memory is short at some position of the gap.
bool is_short_of_memory(const gap_model& m, const gap& e) {
  for (position at = e.last + 1; at < e.next; ++at) {
    if (m.live[static_cast<std::size_t>(at)] > m.what.room) return true;
  }
  return false;
}

// Gaps of large parts while memory is short; with all gaps of the same tensors at the start or the end, when
// they are at home.
std::vector<std::uint32_t> candidates(const gap_model& m) {
  std::vector<bool> moves(m.g.tensors.size(), false), wanted(m.gaps.size(), false);
  const auto is_at_border = [&](const gap& e) { return m.is_at_start(e) || m.is_at_end(e); };
  for (std::uint32_t x = 0; x < m.gaps.size(); ++x) {
    const gap& e = m.gaps[x];
    wanted[x] = m.bytes_of(e) >= m.what.smallest && (m.what.recomputes || is_short_of_memory(m, e)) &&
                (m.what.swaps || (e.again && !is_at_border(e)));
    moves[m.tensor_of(e)] = moves[m.tensor_of(e)] || (wanted[x] && m.what.swaps);
  }
  std::vector<std::uint32_t> all;
  for (std::uint32_t x = 0; x < m.gaps.size(); ++x) {
    if (wanted[x] || (moves[m.tensor_of(m.gaps[x])] && is_at_border(m.gaps[x]))) all.push_back(x);
  }
  return all;
}

// In each slot in which there is memory, or while the next use waits.
void add_copy_in(gap_model& m, const gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const double time = in_units(m.costs.time_of_copy(m.bytes_of(e), lane::to_device));
  const column late = p.add_share();
  terms sum{{*a.swapped, -1}, {late, 1}};
  for (std::size_t i = 0; i < a.taken.size(); ++i) {
    const column share = p.add_share();
    p.at_least({{a.taken[i], 1}, {share, -1}}, 0);
    m.lanes.in[a.first + i].emplace_back(share, time);
    sum.emplace_back(share, 1);
  }
  p.add_row(sum, 0, 0);
  const std::size_t next = m.slots.of(e.next);
  m.lanes.in[next].emplace_back(late, time);
  m.lanes.in_stall[next].emplace_back(late, time);
}

// Ways in which the value is at home, or on the device again, before its copy out in this gap.
terms earlier_copies(const gap_model& m, const gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  terms all;
  for (std::uint32_t before = a.gap; before-- > 0 && m.gaps[before].part == e.part;) {
    const auto& i = m.of_gap[before];
    if (m.gaps[before].producer == e.producer && i && m.away[*i].swapped)
      all.emplace_back(*m.away[*i].swapped, 1);
  }
  for (const auto& c : a.recomputed) {
    if (c) all.emplace_back(*c, 1);
  }
  return all;
}

// From the slot after its producer on; memory is given up when the copy has ended. A value that left in an
// earlier gap is at home.
void add_copy_out(gap_model& m, const gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const double time = in_units(m.costs.time_of_copy(m.bytes_of(e), lane::to_host));
  terms at_home = earlier_copies(m, a);
  const position made = std::min(e.producer + 1, m.uses.end());
  std::size_t s = made < m.uses.end() ? m.slots.of(made) : m.slots.count();
  const column early = p.add_share();  // share of the copy during which the slot waits
  m.lanes.out[s].emplace_back(early, time);
  m.lanes.out_stall[s].emplace_back(early, time);
  at_home.emplace_back(early, 1);
  for (; s < a.first + a.given.size(); ++s) {
    if (s >= a.first) {
      terms row = at_home;
      row.emplace_back(a.given[s - a.first], -1);
      p.at_least(std::move(row), 0);
    }
    const column share = p.add_share();
    m.lanes.out[s].emplace_back(share, time);
    at_home.emplace_back(share, 1);
  }
  if (!m.is_at_end(e)) return;
  const column late = p.add_share();
  m.lanes.out[m.slots.count()].emplace_back(late, time);
  at_home.emplace_back(late, 1);
  at_home.emplace_back(*a.swapped, -1);
  p.at_least(std::move(at_home), 0);
}

// Memory is given up once, and taken back once after that.
void add_memory_columns(gap_model& m, gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const std::size_t count = e.last + 1 < e.next ? m.slots.of(e.next - 1) - m.slots.of(e.last + 1) + 1 : 0;
  a.first = m.slots.of(std::min(e.last + 1, m.uses.end() - 1));
  for (std::size_t i = 0; i < count; ++i) {
    a.given.push_back(m.is_at_start(e) ? m.staged_column(m.tensor_of(e)) : p.add_choice());
    if (!m.is_at_start(e) && i > 0) p.at_least({{a.given[i], 1}, {a.given[i - 1], -1}}, 0);
    if (m.is_at_end(e)) continue;
    a.taken.push_back(p.add_choice());
    if (i > 0) p.at_least({{a.taken[i], 1}, {a.taken[i - 1], -1}}, 0);
    p.at_least({{a.given[i], 1}, {a.taken[i], -1}}, 0);
  }
}

void add_swap_column(gap_model& m, gap_columns& a) {
  const gap& e = m.gaps[a.gap];
  mixed_program& p = m.program;
  const tensor_id t = m.tensor_of(e);
  const role use = m.g.tensors[t].use;
  if (m.is_at_start(e) || m.is_at_end(e)) {
    if (!a.given.empty() && m.is_at_end(e)) p.at_most({{a.given.back(), 1}, {m.staged_column(t), -1}}, 0);
    a.swapped = m.staged_column(t);
  } else if (m.what.swaps && m.on.link_to_device_bytes_per_s > 0 && m.on.link_to_host_bytes_per_s > 0) {
    a.swapped = p.add_share();
    if (persists(use) || survives(use)) p.at_most({{*a.swapped, 1}, {m.staged_column(t), -1}}, 0);
  }
}

void add_absence(gap_model& m, std::uint32_t x) {
  const gap& e = m.gaps[x];
  m.of_gap[x] = m.away.size();
  gap_columns& a = m.away.emplace_back();
  a.gap = x;
  add_memory_columns(m, a);
  add_swap_column(m, a);
  const bool is_inner = !m.is_at_start(e) && !m.is_at_end(e);
  a.recomputed.resize((a.given.size()) + 1);
  if (m.what.recomputes && e.again && is_inner) {
    for (auto& c : a.recomputed) c = m.program.add_choice();
  }
  if (is_inner) {  // given up: swapped or computed again
    terms how{{a.given.back(), -1}};
    if (a.swapped) how.emplace_back(*a.swapped, 1);
    for (const auto& c : a.recomputed) {
      if (c) how.emplace_back(*c, 1);
    }
    m.program.add_row(how, 0, 0);
  }
  if (a.swapped && !m.is_at_end(e)) add_copy_in(m, a);
  if (a.swapped && !m.is_at_start(e) && !e.at_home) add_copy_out(m, a);
}

}  // namespace

void add_absences(gap_model& m) {
  for (const std::uint32_t x : candidates(m)) add_absence(m, x);
}

}  // namespace um::milp
