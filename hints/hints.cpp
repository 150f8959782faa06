#include "hints/hints.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/lower.hpp"
#include "hints/driver_order.hpp"

namespace um {
namespace {

constexpr packer placed_by = packer::best_fit;

memory_plan all_managed(const graph& g) {
  memory_plan plan;
  plan.home.assign(g.tensors.size(), residence::managed);
  return plan;
}

void append_computes(const graph& g, memory_plan& plan) {
  for (op_id o = 0; o < g.ops.size(); ++o) plan.actions.emplace_back(compute{o, {}});
}

memory_plan within_budget(const problem& p, memory_plan plan) {
  return p.under == pressure::plan ? evict_in_driver_order(p, plan, placed_by) : plan;
}

// Tensors below a block share their blocks with others and come in with them.
bool worth_prefetching(const tensor& t) {
  return bytes_of(t) >= managed_block;
}

std::vector<tensor_id> operands_of(const op& o) {
  std::vector<tensor_id> all = o.in;
  all.insert(all.end(), o.out.begin(), o.out.end());
  return all;
}

}  // namespace

memory_plan plan_managed(const problem& p) {
  memory_plan plan = all_managed(p.network);
  append_computes(p.network, plan);
  return within_budget(p, std::move(plan));
}

memory_plan plan_managed_advise(const problem& p) {
  memory_plan plan = all_managed(p.network);
  for (tensor_id t = 0; t < p.network.tensors.size(); ++t) {
    const tensor& what = p.network.tensors[t];
    if (bytes_of(what) < managed_block) continue;  // advice on part of a block would split it
    if (what.use == role::input) plan.actions.emplace_back(advise{t, advice::read_mostly});
    if (what.use == role::parameter || what.use == role::parameter_gradient) {
      plan.actions.emplace_back(advise{t, advice::preferred_device});
    }
  }
  append_computes(p.network, plan);
  return within_budget(p, std::move(plan));
}

memory_plan plan_managed_prefetch(const problem& p) {
  const graph& g = p.network;
  const auto ahead = static_cast<op_id>(p.knobs.at("ahead"));
  memory_plan plan = all_managed(g);
  // The operator for which each tensor was last called, or the last that touched it: it need not
  // be called again while that lies within the look-ahead.
  std::vector<std::int64_t> called(g.tensors.size(), -1 - static_cast<std::int64_t>(ahead) - 1);
  const auto call = [&](op_id target) {
    for (const tensor_id t : operands_of(g.ops[target])) {
      const bool recent =
          static_cast<std::int64_t>(target) - called[t] <= static_cast<std::int64_t>(ahead) + 1;
      if (worth_prefetching(g.tensors[t]) && !recent) plan.actions.emplace_back(prefetch{t, {}});
      called[t] = target;
    }
  };
  for (op_id o = 0; o < std::min<std::size_t>(ahead, g.ops.size()); ++o) call(o);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    if (o + ahead < g.ops.size()) call(o + ahead);
    plan.actions.emplace_back(compute{o, {}});
  }
  return within_budget(p, std::move(plan));
}

std::span<const strategy> hints() {
  static const std::array<strategy, 3> table{{
      {"managed", "cudaMallocManaged without any hint", plan_managed, placed_by, {}},
      {"managed_advise",
       "parameters and gradients prefer the device, inputs are read-mostly",
       plan_managed_advise,
       placed_by,
       {}},
      {"managed_prefetch",
       "prefetch what an operator reads and writes `ahead` operators before it",
       plan_managed_prefetch,
       placed_by,
       {{"ahead", "operators between the prefetch and the use", 2, 0, 64}}},
  }};
  return table;
}

}  // namespace um
