#include "schedule/milp/gap_model.hpp"

#include <algorithm>

namespace um::milp {

time_slots make_slots(const use_table& uses, const forecaster& costs, std::size_t max_slots) {
  nanoseconds sum = 0;
  for (position at = 0; at < uses.end(); ++at) sum += costs.compute_time(at);
  const bool one_each = static_cast<std::size_t>(uses.end()) <= max_slots;
  const nanoseconds longest = one_each ? 0 : sum / static_cast<nanoseconds>(max_slots);
  time_slots s;
  for (position at = 0; at < uses.end(); ++at) {
    if (s.time.empty() || s.time.back() + costs.compute_time(at) > longest) {
      s.time.push_back(0);
      s.begin.push_back(at);
    }
    s.time.back() += costs.compute_time(at);
    s.slot_of_position.push_back(s.time.size() - 1);
  }
  return s;
}

gap_model::gap_model(const problem& p, const use_table& all_uses, const std::vector<gap>& all_gaps,
                     const forecaster& all_costs, std::span<const byte_count> all_live_at_positions,
                     const gap_program_options& wanted)
    : network(p.network),
      target(p.target),
      uses(all_uses),
      gaps(all_gaps),
      costs(all_costs),
      live_at_positions(all_live_at_positions),
      options(wanted),
      slots(make_slots(all_uses, all_costs, wanted.max_slots)),
      absence_of_gap(all_gaps.size()),
      staged_columns(p.network.tensors.size()) {
  for (std::size_t s = 0; s <= slots.count(); ++s)
    stall_columns.push_back(program.add_column(1, 0, mixed_program::no_limit));
  nanoseconds sum = 0;
  for (const nanoseconds time : slots.time) sum += time;
  program.offset = in_units(sum);
  for (auto* each :
       {&lanes.copy_in, &lanes.copy_out, &lanes.copy_in_stall, &lanes.copy_out_stall, &lanes.recompute})
    each->resize(slots.count() + 1);
  lanes.transient_memory.resize(slots.count());
}

column gap_model::staged_column(tensor_id t) {
  if (!staged_columns[t]) staged_columns[t] = program.add_binary();
  return *staged_columns[t];
}

void add_memory_limits(gap_model& m) {
  std::vector<terms> given_up(m.uses.order.size());
  for (const gap_columns& a : m.absences) {
    const gap& e = m.gaps[a.gap];
    const double bytes = in_units(m.bytes_of(e));
    for (position at = e.last_use + 1; at < e.next_use; ++at) {
      const std::size_t i = m.slots.slot_of(at) - a.first_slot;
      given_up[static_cast<std::size_t>(at)].emplace_back(a.released[i], bytes);
      if (!a.reacquired.empty()) given_up[static_cast<std::size_t>(at)].emplace_back(a.reacquired[i], -bytes);
    }
  }
  for (std::size_t at = 0; at < given_up.size(); ++at) {
    terms& row = given_up[at];
    const std::size_t s = m.slots.slot_of_position[at];
    if (m.slots.begin[s] == static_cast<position>(at))
      row.insert(row.end(), m.lanes.transient_memory[s].begin(), m.lanes.transient_memory[s].end());
    const double over = in_units(m.live_at_positions[at]) - in_units(m.options.memory_bytes);
    double least = 0;
    for (const term& t : row) least += std::min(0.0, t.second);
    if (over > least) m.program.add_at_least(std::move(row), over);
  }
}

void add_lane_limits(gap_model& m) {
  for (std::size_t s = 0; s <= m.slots.count(); ++s) {
    const double time = s < m.slots.count() ? in_units(m.slots.time[s]) : 0;
    const auto limit = [&](terms row, double most) {
      if (row.empty()) return;
      row.emplace_back(m.stall_columns[s], -1);
      m.program.add_at_most(std::move(row), most);
    };
    limit(m.lanes.copy_in[s], time);
    limit(m.lanes.copy_out[s], time);
    limit(m.lanes.copy_in_stall[s], 0);
    limit(m.lanes.copy_out_stall[s], 0);
    limit(m.lanes.recompute[s], 0);
  }
}

}  // namespace um::milp
