#include "core/planner.hpp"

#include <algorithm>
#include <array>

#include "core/memory_plan.hpp"

namespace um {
namespace {

std::optional<memory_plan> plan_with_states_on_host(const strategy& s, const problem& p,
                                                    byte_count state_bytes) {
  problem roomier = p;
  roomier.budget += state_bytes;
  try {
    memory_plan plan = s.plan(roomier);
    for (std::size_t t = 0; t < plan.residences.size(); ++t) {
      residence& home = plan.residences[t];
      if (p.network.tensors[t].role == role::state && home == residence::device) home = residence::host;
    }
    return plan;
  } catch (const infeasible&) {  // its message names the larger budget
    return std::nullopt;
  }
}

}  // namespace

compute representative_part(const graph& g, compute c) {
  if (is_all(c.part.batch)) return c;
  const auto adds = [](const access& a) { return a.mode == access_mode::accumulate; };
  const bool is_like_first = c.part.batch.begin == 0 || std::ranges::none_of(accesses_of(g, c), adds);
  const std::int64_t first = is_like_first ? 0 : 1;
  c.part.batch = {first, first + c.part.batch.size()};
  return c;
}

op_cost cost_of(const graph& g, const profile& costs, const machine& on, const slice_costs& slices,
                const compute& c) {
  if (is_whole(c.part) && c.workspace == as_profiled && !c.cheap_recompute) return costs.at(c.op);
  if (slices) return slices(c);
  op_cost cost = costs.at(c.op);
  const op& o = g.ops.at(c.op);
  const nanoseconds fixed = std::min(cost.time, on.launch_ns);
  const auto rest = static_cast<std::uint64_t>(cost.time - fixed);
  cost.time = fixed + static_cast<nanoseconds>(share_of(rest, g, o, c.part));
  cost.workspace_bytes = std::min(cost.workspace_bytes, c.workspace);
  if (c.cheap_recompute) {
    cost.time = fixed + static_cast<nanoseconds>(static_cast<double>(cost.time - fixed) *
                                                 cheap_recomputation_share(g, o));
    cost.workspace_bytes = 0;
  }
  return cost;
}

op_cost cost_of(const problem& p, const compute& c) {
  return cost_of(p.network, p.operator_costs, p.target, p.cost_of_slice, c);
}

memory_technique technique_of(const strategy& s) {
  constexpr std::array usual{memory_technique::batch_parts, memory_technique::swapping,
                             memory_technique::managed_hints};
  return s.technique.value_or(usual.at(static_cast<std::size_t>(s.kind)));
}

const strategy* find_strategy(std::span<const strategy> table, std::string_view name) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const strategy& s) { return s.name == name; });
  return row == table.end() ? nullptr : &*row;
}

memory_plan plan_for(const strategy& s, const problem& p) {
  try {
    return s.plan(p);
  } catch (const infeasible&) {
    const byte_count states = bytes_of(p.network, role::state);
    if (s.kind != family::explicit_ || states == 0) throw;
    if (auto plan = plan_with_states_on_host(s, p, states)) return *std::move(plan);
    throw;
  }
}

knob_values complete_knobs(const strategy& s, const knob_values& given) {
  knob_values all;
  for (const knob& k : s.knobs) all[k.name] = k.default_value;
  for (const auto& [name, value] : given) {
    const auto k =
        std::find_if(s.knobs.begin(), s.knobs.end(), [&](const knob& row) { return row.name == name; });
    if (k == s.knobs.end()) {
      std::string known;
      for (const knob& row : s.knobs) known += (known.empty() ? "" : ", ") + row.name;
      throw std::invalid_argument("strategy " + s.name + " has no knob '" + name + "'" +
                                  (known.empty() ? " (it has none)" : " (it has: " + known + ")"));
    }
    if (value < k->min_value || value > k->max_value) {
      throw std::invalid_argument("knob '" + name + "' of strategy " + s.name + " is " +
                                  std::to_string(value) + ", must be " + std::to_string(k->min_value) +
                                  " to " + std::to_string(k->max_value));
    }
    all[name] = value;
  }
  return all;
}

}  // namespace um
