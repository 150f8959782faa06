// Every strategy of rules over budgets in small steps: the room that is needed is computed once, so a plan
// fits or does not exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "backends/simulator_backend.hpp"
#include "core/lower.hpp"
#include "core/managed_map.hpp"
#include "core/residency.hpp"
#include "core/verify.hpp"
#include "hints/hints.hpp"
#include "tests/machines.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

struct budgets : ::testing::TestWithParam<std::string> {
  const graph g = small_graph(GetParam());
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const byte_count footprint = footprint_of(g, costs).total;

  // Of the rows that decide what leaves; searches are short.
  void for_plans(const auto& look) const {
    for (const hint_strategy& s : hint_table()) {
      const bool decides = std::ranges::any_of(
          s.rules, [](const hint_rule& r) { return !std::holds_alternative<advice_rule>(r.policy); });
      if (!decides && !s.rules.empty()) continue;
      knob_values knobs = complete_knobs(make_strategy(s), {});
      if (knobs.contains("trials")) knobs["trials"] = 3;
      for (int i = 0; i < 5; ++i) {
        // Not by tenths: blocks, not shares, are what an account is wrong by.
        const byte_count budget =
            footprint - footprint * 7 / 10 * static_cast<byte_count>(i) / 5 - 37 * i * KiB;
        const problem p{g, costs, m, budget, pressure::plan, knobs};
        SCOPED_TRACE(s.name + " within " + std::to_string(budget));
        try {
          look(p, plan_hints(s, p));
        } catch (const infeasible& refused) {
          EXPECT_NE(std::string(refused.what()).find("budget"), std::string::npos) << refused.what();
        }
      }
    }
  }
};

// What a step moves is what the ledger says it gives up; returns how many blocks.
std::uint64_t blocks_given_up(const problem& p, const memory_plan& plan) {
  const placement at(p, plan, packers::searched);
  block_ledger ledger(p.network, plan.residences, at.managed, at.addresses.managed_bytes);
  std::uint64_t freed = 0;
  for (int iteration = 0; iteration < 2; ++iteration) {
    ledger.begin_iteration();
    for (std::uint32_t i = 0; i < plan.actions.size(); ++i) {
      std::vector<range> owned;
      if (const auto* e = std::get_if<evict>(&plan.actions[i]))
        owned = at.managed.owned_ranges(e->tensor, e->part, i);
      if (const auto* d = std::get_if<discard>(&plan.actions[i]))
        owned = at.managed.owned_discardable_ranges(d->tensor, d->part, i);
      std::uint64_t resident = 0;
      for (const range& r : owned) {
        const auto [begin, end] = blocks_of(r);
        for (std::size_t b = begin; b < end; ++b) resident += ledger.is_resident(b) ? 1 : 0;
      }
      EXPECT_EQ(ledger.apply(plan.actions[i]).released_blocks, resident)
          << to_text(p.network, plan.actions[i]);
      freed += resident;
    }
  }
  return freed;
}

TEST_P(budgets, a_plan_is_verified_and_fits_and_gives_up_what_its_ledger_says_or_there_is_none) {
  int plans = 0;
  std::uint64_t freed = 0;
  for_plans([&](const problem& p, const memory_plan& plan) {
    ASSERT_EQ(defect_of(g, plan), std::nullopt);
    execution_plan steps;
    ASSERT_NO_THROW(steps = lower(p, plan));
    EXPECT_LE(steps.peak_device_bytes, p.budget);
    freed += blocks_given_up(p, plan);
    ++plans;
  });
  EXPECT_GT(plans, 20);
  EXPECT_GT(freed, 0U);
}

// Parts that are no whole number of blocks share some: a discard of one waits for the last use of all of it.
TEST(shared_blocks, are_given_up_behind_the_last_use_of_the_part) {
  const graph g = build_network(small_spec("alexnet", 512));
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const byte_count footprint = footprint_of(g, costs).total;
  const auto deepum = std::ranges::find(hint_table(), "deepum", &hint_strategy::name);
  for (const byte_count ratio : {3, 4}) {
    const problem p{
        g, costs, m, footprint / ratio, pressure::plan, complete_knobs(make_strategy(*deepum), {})};
    EXPECT_EQ(defect_of(g, plan_hints(*deepum, p)), std::nullopt) << ratio;
  }
}

INSTANTIATE_TEST_SUITE_P(small_networks, budgets, ::testing::Values("alexnet_sgd", "vgg11", "residual"),
                         [](const auto& each) { return each.param; });

}  // namespace
