#include "schedule/milp/gap_model.hpp"

#include <algorithm>

namespace um::milp {

time_slots slots_of(const use_table& uses, const forecaster& costs, std::size_t most) {
  nanoseconds sum = 0;
  for (position at = 0; at < uses.end(); ++at) sum += costs.time_of(at);
  const bool one_each = static_cast<std::size_t>(uses.end()) <= most;
  const nanoseconds longest = one_each ? 0 : sum / static_cast<nanoseconds>(most);
  time_slots s;
  for (position at = 0; at < uses.end(); ++at) {
    if (s.time.empty() || s.time.back() + costs.time_of(at) > longest) {
      s.time.push_back(0);
      s.begin.push_back(at);
    }
    s.time.back() += costs.time_of(at);
    s.of_position.push_back(s.time.size() - 1);
  }
  return s;
}

gap_model::gap_model(const problem& p, const use_table& all_uses, const std::vector<gap>& all_gaps,
                     const forecaster& all_costs, std::span<const byte_count> live_bytes,
                     const gap_program& wanted)
    : g(p.network),
      on(p.on),
      uses(all_uses),
      gaps(all_gaps),
      costs(all_costs),
      live(live_bytes),
      what(wanted),
      slots(slots_of(all_uses, all_costs, wanted.slots)),
      of_gap(all_gaps.size()),
      staged(p.network.tensors.size()) {
  for (std::size_t s = 0; s <= slots.count(); ++s)
    stall.push_back(program.add_column(1, 0, mixed_program::no_limit));
  nanoseconds sum = 0;
  for (const nanoseconds time : slots.time) sum += time;
  program.offset = in_units(sum);
  for (auto* each : {&lanes.in, &lanes.out, &lanes.in_stall, &lanes.out_stall, &lanes.recomputed})
    each->resize(slots.count() + 1);
  lanes.transient.resize(slots.count());
}

column gap_model::staged_column(tensor_id t) {
  if (!staged[t]) staged[t] = program.add_choice();
  return *staged[t];
}

void add_memory_limits(gap_model& m) {
  std::vector<terms> given_up(m.uses.order.size());
  for (const gap_columns& a : m.away) {
    const gap& e = m.gaps[a.gap];
    const double bytes = in_units(m.bytes_of(e));
    for (position at = e.last + 1; at < e.next; ++at) {
      const std::size_t i = m.slots.of(at) - a.first;
      given_up[static_cast<std::size_t>(at)].emplace_back(a.given[i], bytes);
      if (!a.taken.empty()) given_up[static_cast<std::size_t>(at)].emplace_back(a.taken[i], -bytes);
    }
  }
  for (std::size_t at = 0; at < given_up.size(); ++at) {
    terms& row = given_up[at];
    const std::size_t s = m.slots.of_position[at];
    if (m.slots.begin[s] == static_cast<position>(at))
      row.insert(row.end(), m.lanes.transient[s].begin(), m.lanes.transient[s].end());
    const double over = in_units(m.live[at]) - in_units(m.what.room);
    double least = 0;
    for (const term& t : row) least += std::min(0.0, t.second);
    if (over > least) m.program.at_least(std::move(row), over);
  }
}

void add_lane_limits(gap_model& m) {
  for (std::size_t s = 0; s <= m.slots.count(); ++s) {
    const double time = s < m.slots.count() ? in_units(m.slots.time[s]) : 0;
    const auto limit = [&](terms row, double most) {
      if (row.empty()) return;
      row.emplace_back(m.stall[s], -1);
      m.program.at_most(std::move(row), most);
    };
    limit(m.lanes.in[s], time);
    limit(m.lanes.out[s], time);
    limit(m.lanes.in_stall[s], 0);
    limit(m.lanes.out_stall[s], 0);
    limit(m.lanes.recomputed[s], 0);
  }
}

}  // namespace um::milp
