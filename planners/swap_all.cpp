#include <algorithm>
#include <vector>

#include "core/lower.hpp"
#include "planners/planners.hpp"

namespace um {
namespace {

// A stretch between two uses of a tensor during which it is not on the device.
struct absence {
  tensor_id what = 0;
  bool leaves = true;   // false: it starts the iteration at home
  op_id last_use = 0;   // evicted after this operator
  op_id next_use = 0;   // must be back for this one
  bool returns = true;  // false: not needed again in this iteration
};

// The operators that touch each tensor, in order.
std::vector<std::vector<op_id>> uses_of(const graph& g) {
  std::vector<std::vector<op_id>> uses(g.tensors.size());
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const auto* operands : {&g.ops[o].in, &g.ops[o].out}) {
      for (const tensor_id t : *operands) {
        if (uses[t].empty() || uses[t].back() != o) uses[t].push_back(o);
      }
    }
  }
  return uses;
}

bool is_offloaded(role use) {
  return use == role::activation || use == role::input;
}

std::vector<absence> absences_of(const graph& g, std::uint32_t ahead) {
  std::vector<absence> all;
  const auto uses = uses_of(g);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (!is_offloaded(g.tensors[t].use) || uses[t].empty()) continue;
    const bool given = persists(g.tensors[t].use);
    if (given) all.push_back({t, false, 0, uses[t].front(), true});
    for (std::size_t i = 0; i + 1 < uses[t].size(); ++i) {
      if (uses[t][i + 1] - uses[t][i] > ahead + 1) all.push_back({t, true, uses[t][i], uses[t][i + 1], true});
    }
    if (given) all.push_back({t, true, uses[t].back(), 0, false});
  }
  return all;
}

memory_plan swap_with(const graph& g, std::uint32_t ahead) {
  memory_plan plan;
  plan.home.assign(g.tensors.size(), residence::device);
  std::vector<std::vector<tensor_id>> fetch(g.ops.size()), leave(g.ops.size());
  for (const absence& a : absences_of(g, ahead)) {
    plan.home[a.what] = residence::staged;
    if (a.leaves) leave[a.last_use].push_back(a.what);
    if (!a.returns) continue;
    const op_id earliest = a.leaves ? a.last_use + 1 : 0;
    fetch[std::max(earliest, a.next_use > ahead ? a.next_use - ahead : 0)].push_back(a.what);
  }
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const tensor_id t : fetch[o]) plan.actions.emplace_back(prefetch{t, {}});
    plan.actions.emplace_back(compute{o, {}});
    for (const tensor_id t : leave[o]) plan.actions.emplace_back(evict{t, {}});
  }
  return plan;
}

}  // namespace

memory_plan plan_swap_all(const problem& p) {
  byte_count least = 0;
  for (auto ahead = static_cast<std::int64_t>(p.knobs.at("ahead")); ahead >= 0; --ahead) {
    memory_plan plan = swap_with(p.network, static_cast<std::uint32_t>(ahead));
    problem unlimited = p;
    unlimited.budget = std::numeric_limits<byte_count>::max();
    const byte_count need = lower(unlimited, plan, packer::best_fit).device_arena_bytes;
    if (need <= p.budget) return plan;
    least = need;
  }
  throw infeasible("swap_all needs " + to_text(least) + " even when it fetches just in time, the budget is " +
                   to_text(p.budget) + " (weights, gradients and one operator's operands stay resident)");
}

}  // namespace um
