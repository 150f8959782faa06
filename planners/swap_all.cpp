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

// How far transfers are stretched: a fetch comes `ahead` operators before its use, and an evicted
// tensor keeps its place until `lag` operators after its last use, so that the copy need not be
// over before the next operator writes there. Both cost memory and hide time.
struct slack {
  std::uint32_t ahead = 0, lag = 0;
};

memory_plan swap_with(const graph& g, slack s) {
  memory_plan plan;
  plan.home.assign(g.tensors.size(), residence::device);
  const auto end = static_cast<op_id>(g.ops.size());
  std::vector<std::vector<tensor_id>> fetch(g.ops.size()), leave(g.ops.size());
  for (const absence& a : absences_of(g, s.ahead)) {
    plan.home[a.what] = residence::staged;
    const op_id earliest = a.leaves ? a.last_use + 1 : 0;
    const op_id back = std::max(earliest, a.next_use > s.ahead ? a.next_use - s.ahead : 0);
    if (a.returns) fetch[back].push_back(a.what);
    if (a.leaves) leave[std::min(a.last_use + s.lag, (a.returns ? back : end) - 1)].push_back(a.what);
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
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  const auto ahead = static_cast<std::uint32_t>(p.knobs.at("ahead"));
  byte_count least = 0;
  for (auto most = static_cast<std::uint32_t>(p.network.ops.size());; most = most * 3 / 4) {
    const slack s{std::min(ahead, most), most};
    memory_plan plan = swap_with(p.network, s);
    least = lower(unlimited, plan, packer::best_fit).device_arena_bytes;
    if (least <= p.budget) return plan;
    if (most == 0) break;
  }
  throw infeasible("swap_all needs " + to_text(least) + " even when it fetches just in time, the budget is " +
                   to_text(p.budget) + " (weights, gradients and one operator's operands stay resident)");
}

}  // namespace um
