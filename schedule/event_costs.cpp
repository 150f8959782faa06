#include "schedule/event_costs.hpp"

#include <algorithm>
#include <limits>

#include "core/memory_plan.hpp"

namespace um {
namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};

// The input and the output part that share memory if the operator runs in place; equal ids if it does not.
std::pair<part_id, part_id> find_in_place_parts(const graph& g, const use_table& uses, position at) {
  const auto i = static_cast<std::size_t>(at);
  const op& o = g.ops[uses.order[i].op];
  if (!o.alias) return {0, 0};
  const tensor_id from = o.in[o.alias->input], to = o.out[o.alias->output];
  if (from == to || survives(g.tensors[from].role)) return {0, 0};
  const auto only_part = [&](tensor_id t) {
    std::uint32_t found = none;
    for (const touched_part& x : uses.touched_parts[i]) {
      if (uses.parts[x.part].tensor == t) found = found == none ? x.part : none - 1;
    }
    return found;
  };
  const std::uint32_t a = only_part(from), b = only_part(to);
  if (a >= none - 1 || b >= none - 1 || uses.parts[a].bytes != uses.parts[b].bytes) return {0, 0};
  return {a, b};
}

// A slice of a filter gradient that adds to earlier slices may need extra memory for its own result.
byte_count workspace_bytes_at(const graph& g, const use_table& uses, position at, byte_count own) {
  byte_count bytes = round_up(own, arena_alignment);
  const auto i = static_cast<std::size_t>(at);
  if (!has_kind<convolution_backward_filter>(g.ops[uses.order[i].op])) return bytes;
  for (const touched_part& x : uses.touched_parts[i]) {
    if (x.mode == access_mode::accumulate) bytes += uses.parts[x.part].bytes;
  }
  return bytes;
}

// Outputs in place of inputs that nothing uses later.
std::vector<joined_tensors> find_joined_tensors(
    const graph& g, const use_table& uses, const std::vector<std::pair<part_id, part_id>>& in_place_parts) {
  std::vector<joined_tensors> all;
  if (g.shares_memory) return all;
  for (position at = 0; at < uses.end(); ++at) {
    const auto [from, to] = in_place_parts[static_cast<std::size_t>(at)];
    const auto is_at = [&](const use& u) { return u.at == at; };
    if (from != to && is_at(uses.uses_of_part[from].back()) && is_at(uses.uses_of_part[to].front()))
      all.push_back({uses.parts[from].tensor, uses.parts[to].tensor, uses.parts[to].bytes});
  }
  return all;
}

}  // namespace

byte_count joined_bytes(const event_costs& costs, const std::vector<bool>& staged_tensors) {
  byte_count bytes = 0;
  for (const joined_tensors& x : costs.joined) {
    if (!staged_tensors[x.input] && !staged_tensors[x.output]) bytes += x.bytes;
  }
  return bytes;
}

nanoseconds recompute_time(const problem& p, op_id what) {
  const auto second = as_cheap_recomputation(p.network, {what, {}});
  const nanoseconds first = p.operator_costs[what].time;
  return second.cheap_recompute ? std::min(first, cost_of(p, second).time) : first;
}

event_costs tabulate_costs(const problem& p, const use_table& uses) {
  event_costs all{uses, p.target, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  for (position at = 0; at < uses.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    const op_cost cost = cost_of(p, uses.order[i]);
    all.compute_time.push_back(cost.time);
    all.workspace.push_back(workspace_bytes_at(p.network, uses, at, cost.workspace_bytes));
    const auto second = as_cheap_recomputation(p.network, uses.order[i]);
    all.recompute_time.push_back(second.cheap_recompute ? cost_of(p, second).time : cost.time);
    all.recompute_workspace.push_back(second.cheap_recompute ? 0 : all.workspace.back());
    all.in_place_parts.push_back(find_in_place_parts(p.network, uses, at));
    all.first_touch.push_back(static_cast<std::uint32_t>(all.touches.size()));
    const auto& here = uses.touched_parts[i];
    all.touches.insert(all.touches.end(), here.begin(), here.end());
  }
  all.first_touch.push_back(static_cast<std::uint32_t>(all.touches.size()));
  for (const auto& part : uses.parts) {
    const role use = p.network.tensors[part.tensor].role;
    all.parts.push_back(
        {part.bytes, part.tensor, persists(use), survives(use), keeps_memory(p.network, part.tensor),
         copy_time(p.target, part.bytes, lane::to_device), copy_time(p.target, part.bytes, lane::to_host)});
  }
  all.joined = find_joined_tensors(p.network, uses, all.in_place_parts);
  return all;
}

nanoseconds copy_time(const machine& on, byte_count bytes, lane where) {
  const std::uint64_t rate =
      where == lane::to_device ? on.link_to_device_bytes_per_s : on.link_to_host_bytes_per_s;
  return on.copy_ns +
         (rate == 0 ? std::numeric_limits<nanoseconds>::max() / 1'000'000 : time_at(bytes, rate));
}

}  // namespace um
