// What a static schedule gives up, and in which parts.
#include "hints/make_room.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "backends/simulator_backend.hpp"
#include "core/lower.hpp"
#include "core/managed_map.hpp"
#include "core/residency.hpp"
#include "core/verify.hpp"
#include "hints/hints.hpp"
#include "tests/core/chain.hpp"
#include "tests/machines.hpp"
#include "tests/planners/small_networks.hpp"

namespace um {
namespace {

using namespace um::testing;

struct room : ::testing::Test {
  graph g = chain(6);
  profile costs = costs_of(g);
  machine m;
  eviction_options rules;
  room() {
    rules.order = evict_order::furthest_use;
    rules.prefetch_inputs = rules.populate_outputs = true;
    for (tensor& t : g.tensors) t.shape = {8, 256, 64, 16};  // 8 MiB: four blocks
    rules.is_discarded.assign(g.tensors.size(), true);
  }
  problem with(byte_count budget) { return {g, costs, m, budget, evictor::plan, {}}; }
  memory_plan plan_with_room(byte_count budget) {
    const problem p = with(budget);
    const memory_plan draft = in_order(g, residence::managed);
    return make_room(p, draft, placement_of_draft(p, draft, packers::searched), rules);
  }
  std::vector<std::size_t> actions_using(const memory_plan& plan, tensor_id t) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      const auto* c = std::get_if<compute>(&plan.actions[i]);
      if (c == nullptr) continue;
      const op& o = g.ops[c->op];
      const bool reads = std::ranges::find(o.in, t) != o.in.end();
      if (reads || std::ranges::find(o.out, t) != o.out.end()) all.push_back(i);
    }
    return all;
  }
};

TEST_F(room, parts_are_whole_blocks_where_some_number_of_them_allows_it) {
  const tensor t{"t", {8, 256, 64, 24}, dtype::f32, role::activation};  // six blocks, 8 images
  for (const residence home : {residence::managed, residence::twinned}) {
    EXPECT_EQ(eviction_part_count(t, home, 1, 2 * MiB), 2U) << "three blocks each: 8 images have no thirds";
    EXPECT_EQ(eviction_part_count(t, home, 4, 2 * MiB), 2U) << "two slices to a part";
    EXPECT_EQ(eviction_part_count(t, home, 1, 64 * MiB), 1U);
  }
  const tensor odd{"odd", {8, 256, 64, 17}, dtype::f32, role::activation};  // parts of it share blocks
  EXPECT_EQ(eviction_part_count(odd, residence::twinned, 4, 2 * MiB), 1U);
  EXPECT_EQ(eviction_part_count(odd, residence::managed, 4, 2 * MiB), 8U);
}

TEST_F(room, what_is_dead_never_crosses_the_link) {
  for (const byte_count budget : {24 * MiB, 32 * MiB, 48 * MiB}) {
    const memory_plan plan = plan_with_room(budget);
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      const auto* e = std::get_if<evict>(&plan.actions[i]);
      if (e == nullptr || survives(g.tensors[e->tensor].role)) continue;
      const std::vector<std::size_t> uses = actions_using(plan, e->tensor);
      EXPECT_TRUE(uses.front() < i && i < uses.back()) << to_text(g, plan.actions[i]);
    }
  }
}

// A discard and populating again cost more than room that nobody needs.
TEST_F(room, what_is_dead_stays_until_room_is_needed_and_goes_first) {
  const auto given_up = [this](byte_count budget) {
    int discards = 0;
    const memory_plan plan = plan_with_room(budget);
    for (const action& a : plan.actions) discards += std::holds_alternative<discard>(a) ? 1 : 0;
    return discards;
  };
  EXPECT_EQ(given_up(256 * MiB), 0);
  EXPECT_GT(given_up(48 * MiB), 0);
  EXPECT_GE(given_up(32 * MiB), given_up(48 * MiB));
  const memory_plan plan = plan_with_room(32 * MiB);
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    if (!std::holds_alternative<evict>(plan.actions[i])) continue;
    // Whatever is dead and not given up behind an eviction was never given room in between.
    for (std::size_t k = i + 1; k < plan.actions.size() && !std::holds_alternative<compute>(plan.actions[k]);
         ++k) {
      EXPECT_FALSE(std::holds_alternative<discard>(plan.actions[k])) << to_text(g, plan.actions[k]);
    }
  }
}

TEST_F(room, keeps_the_budget_and_fetches_what_left) {
  const execution_plan e = lower(with(32 * MiB), plan_with_room(32 * MiB));
  EXPECT_LE(e.peak_device_bytes, 32 * MiB);
  int evictions = 0, fetches = 0;
  for (const step& s : e.steps) {
    evictions += std::holds_alternative<evict>(s.command) ? 1 : 0;
    fetches += std::holds_alternative<prefetch>(s.command) ? 1 : 0;
  }
  EXPECT_GT(evictions, 0);
  EXPECT_GT(fetches, 0);
}

// Every strategy of rules over budgets in small steps: the room that is needed is computed once, so a plan
// fits or does not exist.

struct budgets : ::testing::TestWithParam<std::string> {
  const graph g = small_graph(GetParam());
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const byte_count footprint = footprint_of(g, costs).total;

  // Of the rows that decide what leaves; searches are short.
  void for_each_plan(const auto& look) const {
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
        const problem p{g, costs, m, budget, evictor::plan, knobs};
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
  for_each_plan([&](const problem& p, const memory_plan& plan) {
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
        g, costs, m, footprint / ratio, evictor::plan, complete_knobs(make_strategy(*deepum), {})};
    EXPECT_EQ(defect_of(g, plan_hints(*deepum, p)), std::nullopt) << ratio;
  }
}

INSTANTIATE_TEST_SUITE_P(small_networks, budgets, ::testing::Values("alexnet_sgd", "vgg11", "residual"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace um
