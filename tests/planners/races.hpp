// Looks for two steps of a lowered plan, of different lanes, that could run at the same time and touch the
// same bytes, unless both only read them.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/lower.hpp"

namespace um::testing {

struct memory_use {
  space where;
  byte_count begin, end;
  bool writes;
};

inline void add_use(std::vector<memory_use>& all, const address& at, byte_count bytes, bool writes) {
  if (bytes > 0) all.push_back({at.where, at.offset, at.offset + bytes, writes});
}

// One stretch for each slice: what lies between rows belongs to neighbours, so rows one by one.
inline void add_uses_of_copy(std::vector<memory_use>& all, const pitched_copy& c) {
  for (byte_count z = 0; z < c.depth; ++z) {
    for (byte_count y = 0; y < c.height; ++y) {
      add_use(all, {c.from.where, c.from.offset + z * c.from_slice + y * c.from_pitch}, c.width, false);
      add_use(all, {c.to.where, c.to.offset + z * c.to_slice + y * c.to_pitch}, c.width, true);
    }
  }
}

// What a step does to memory. Moving managed data changes no value, so it is no use.
inline std::vector<memory_use> memory_uses_of(const graph& g, const step& s) {
  std::vector<memory_use> all;
  for (const operand& o : s.operands) {
    add_use(all, o.location, bytes_of(g.tensors[o.accessed.tensor], o.accessed.where),
            o.accessed.mode != access_mode::read);
  }
  add_use(all, {space::device, s.workspace_offset}, s.workspace_bytes, true);
  for (const auto* copies : {&s.gathers, &s.scatters}) {
    for (const pitched_copy& c : *copies) add_uses_of_copy(all, c);
  }
  if (!s.is_needed) return all;
  for (const pitched_copy& c : s.copies) add_uses_of_copy(all, c);
  const bool twinned = s.home == residence::twinned, in = std::holds_alternative<prefetch>(s.command);
  const bool gives_up = std::holds_alternative<discard>(s.command) && is_managed(s.home);
  for (const range& r : s.populate_or_discard) add_use(all, {space::managed, r.offset}, r.bytes, true);
  for (const managed_target& m : s.managed_targets) {
    const bool copies = twinned && (in || std::holds_alternative<evict>(s.command));
    if (copies || gives_up)
      add_use(all, {space::managed, m.device_range.offset}, m.device_range.bytes, in || gives_up);
    if (copies) add_use(all, {space::pinned, m.pinned_offset}, m.device_range.bytes, !in);
  }
  return all;
}

// For each step and lane, the last step of that lane that has ended when the step begins.
inline std::vector<std::array<std::int32_t, lane_count>> last_ended_steps(const execution_plan& e) {
  std::vector<std::array<std::int32_t, lane_count>> seen(e.steps.size());
  std::array<std::int32_t, lane_count> last{no_step, no_step, no_step};
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    const auto mine = static_cast<std::size_t>(e.steps[i].in_lane);
    seen[i] = {no_step, no_step, no_step};
    std::array<std::int32_t, lane_count> direct = e.steps[i].waits_for;
    direct[mine] = last[mine];
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (direct[l] == no_step) continue;
      for (std::size_t k = 0; k < lane_count; ++k) {
        seen[i][k] = std::max(seen[i][k], seen[static_cast<std::size_t>(direct[l])][k]);
      }
      seen[i][l] = std::max(seen[i][l], direct[l]);
    }
    last[mine] = static_cast<std::int32_t>(i);
  }
  return seen;
}

// Sorted, and apart from each other.
using range_list = std::vector<std::pair<byte_count, byte_count>>;

inline range_list merged(range_list all) {
  std::ranges::sort(all);
  range_list result;
  for (const auto& [begin, end] : all) {
    if (!result.empty() && begin <= result.back().second) {
      result.back().second = std::max(result.back().second, end);
    } else {
      result.emplace_back(begin, end);
    }
  }
  return result;
}

inline bool overlap(const range_list& a, const range_list& b) {
  auto x = a.begin(), y = b.begin();
  while (x != a.end() && y != b.end()) {
    if (x->second <= y->first) {
      ++x;
    } else if (y->second <= x->first) {
      ++y;
    } else {
      return true;
    }
  }
  return false;
}

// Of one step, for each space.
struct step_ranges {
  std::array<range_list, 3> touched, written;
};

inline step_ranges ranges_used_by(const graph& g, const step& s) {
  step_ranges all;
  for (const memory_use& u : memory_uses_of(g, s)) {
    const auto where = static_cast<std::size_t>(u.where);
    all.touched[where].emplace_back(u.begin, u.end);
    if (u.writes) all.written[where].emplace_back(u.begin, u.end);
  }
  for (range_list& l : all.touched) l = merged(std::move(l));
  for (range_list& l : all.written) l = merged(std::move(l));
  return all;
}

inline bool conflict(const step_ranges& a, const step_ranges& b) {
  for (std::size_t where = 0; where < a.touched.size(); ++where) {
    if (overlap(a.written[where], b.touched[where]) || overlap(a.touched[where], b.written[where]))
      return true;
  }
  return false;
}

// The first two steps that may run at the same time and touch the same bytes.
inline std::optional<std::string> find_race(const graph& g, const execution_plan& e) {
  const auto seen = last_ended_steps(e);
  std::vector<step_ranges> uses;
  std::array<std::vector<std::size_t>, lane_count> of_lane;
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    uses.push_back(ranges_used_by(g, e.steps[i]));
    for (std::size_t l = 0; l < lane_count; ++l) {
      for (auto j = of_lane[l].rbegin(); j != of_lane[l].rend(); ++j) {
        if (seen[i][l] >= static_cast<std::int32_t>(*j)) break;
        if (!conflict(uses[i], uses[*j])) continue;
        return to_text(g, e.steps[i].command) + " may run beside " + to_text(g, e.steps[*j].command);
      }
    }
    of_lane[static_cast<std::size_t>(e.steps[i].in_lane)].push_back(i);
  }
  return std::nullopt;
}

}  // namespace um::testing
