#include <gtest/gtest.h>

#include "core/lower.hpp"
#include "hints/make_room.hpp"
#include "tests/core/chain.hpp"

namespace {

using namespace um;
using namespace um::testing;

struct driver_order : ::testing::Test {
  graph g = chain(4);
  profile costs = costs_of(g);
  machine m;
  driver_order() {
    for (tensor& t : g.tensors) t.shape = {4, 128, 64, 64};  // 8 MiB: four blocks
  }
  problem with(byte_count budget) { return {g, costs, m, budget, pressure::plan, {}}; }

  static memory_plan within_budget(const problem& p, const memory_plan& draft) {
    return make_room(p, draft, placement_of_draft(p, draft, packers::searched), {});
  }
  static int evictions(const memory_plan& plan) {
    int count = 0;
    for (const action& a : plan.actions) count += std::holds_alternative<evict>(a) ? 1 : 0;
    return count;
  }
};

TEST_F(driver_order, evicts_nothing_while_everything_fits) {
  const memory_plan plan = within_budget(with(GiB), in_order(g, residence::managed));
  EXPECT_EQ(evictions(plan), 0);
}

TEST_F(driver_order, takes_the_least_recently_migrated_first) {
  const memory_plan free_plan = in_order(g, residence::managed);
  const byte_count arena = lower(with(GiB), free_plan).managed_arena_bytes;
  const memory_plan plan = within_budget(with(arena - managed_block), free_plan);
  EXPECT_GT(evictions(plan), 0);
  const execution_plan e = lower(with(arena - managed_block), plan);
  EXPECT_LE(e.peak_device_bytes, arena - managed_block);
}

TEST_F(driver_order, never_takes_an_operand_of_the_next_operator) {
  const memory_plan plan = within_budget(with(32 * MiB), in_order(g, residence::managed));
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* gone = std::get_if<evict>(&plan.actions[i]);
    if (gone == nullptr) continue;
    std::size_t k = i;
    while (k < plan.actions.size() && !std::holds_alternative<compute>(plan.actions[k])) ++k;
    if (k == plan.actions.size()) continue;
    const op& next = g.ops[std::get<compute>(plan.actions[k]).op];
    for (const tensor_id t : next.in) EXPECT_NE(t, gone->tensor) << next.name;
    for (const tensor_id t : next.out) EXPECT_NE(t, gone->tensor) << next.name;
  }
}

TEST_F(driver_order, an_operator_larger_than_the_budget_is_infeasible_and_named) {
  try {
    within_budget(with(16 * MiB), in_order(g, residence::managed));
    FAIL();
  } catch (const infeasible& refused) {
    EXPECT_NE(std::string(refused.what()).find("back3"), std::string::npos) << refused.what();
  }
}

TEST_F(driver_order, a_prefetch_without_room_is_dropped) {
  memory_plan plan = in_order(g, residence::managed);
  const tensor_id y0 = named(g, "y0");
  // Before back3, whose operands fill the budget; back0 is the next to read y0.
  plan.actions.insert(plan.actions.begin() + 4, prefetch{y0, {}});
  const memory_plan tight = within_budget(with(24 * MiB), plan);
  for (const action& a : tight.actions) EXPECT_FALSE(std::holds_alternative<prefetch>(a));
  const memory_plan roomy = within_budget(with(GiB), plan);
  EXPECT_EQ(roomy.actions.size(), plan.actions.size());
}

TEST_F(driver_order, a_prefetch_nobody_uses_is_dropped) {
  memory_plan plan = in_order(g, residence::managed);
  plan.actions.emplace_back(prefetch{named(g, "x"), {}});
  const memory_plan kept = within_budget(with(GiB), plan);
  EXPECT_EQ(kept.actions.size(), plan.actions.size() - 1);
}

}  // namespace
