// The search over the numbers that rules leave open.
#include <gtest/gtest.h>

#include <set>

#include "backends/simulator_backend.hpp"
#include "core/lower.hpp"
#include "core/verify.hpp"
#include "hints/eviction_timing.hpp"
#include "hints/hints.hpp"
#include "hints/make_room.hpp"
#include "hints/slices.hpp"
#include "tests/machines.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

const hint_strategy& hint_strategy_named(const std::string& name) {
  for (const hint_strategy& s : hint_table()) {
    if (s.name == name) return s;
  }
  throw std::invalid_argument(name);
}

struct search : ::testing::TestWithParam<const char*> {
  const graph g = small("", "vgg11", 32, {.fusion_mode = fusion::fused}).g;
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const byte_count footprint = footprint_of(g, costs).total;

  problem problem_at(double ratio, knob_values knobs = {}) const {
    return {g,
            costs,
            m,
            static_cast<byte_count>(static_cast<double>(footprint) / ratio),
            evictor::plan,
            std::move(knobs)};
  }
  nanoseconds time_of(const hint_strategy& s, const problem& p) const {
    return expected_iteration_time(p, lower(p, plan_hints(s, p)));
  }
  nanoseconds time_after(std::int64_t trials, double ratio) const {
    const hint_strategy& s = hint_strategy_named(GetParam());
    const problem p = problem_at(ratio, {{"trials", trials}});
    return time_of(s, p);
  }
};

TEST_P(search, one_trial_is_no_search) {
  for (const double ratio : {1.25, 2.0}) {
    const problem p = problem_at(ratio);
    // Which sees at least whether evictions are to wait for their turn.
    EXPECT_GE(time_after(1, ratio), time_of(without_rule(hint_strategy_named(GetParam()), "search"), p));
  }
}

TEST_P(search, more_trials_are_never_slower_and_some_are_faster) {
  bool faster = false;
  for (const double ratio : {1.25, 2.0, 3.0}) {
    nanoseconds before = time_after(1, ratio);
    for (const std::int64_t trials : {3, 8, 24}) {
      const nanoseconds now = time_after(trials, ratio);
      EXPECT_LE(now, before) << ratio << ' ' << trials;
      faster = faster || now < before;
      before = now;
    }
  }
  EXPECT_TRUE(faster);
}

TEST_P(search, gives_the_same_plan_every_time) {
  const problem p = problem_at(2);
  EXPECT_EQ(plan_hints(hint_strategy_named(GetParam()), p), plan_hints(hint_strategy_named(GetParam()), p));
}

TEST_P(search, does_not_search_where_everything_fits) {
  const problem p = problem_at(0.9);
  const memory_plan plan = plan_hints(hint_strategy_named(GetParam()), p);
  EXPECT_EQ(plan, plan_hints(without_rule(hint_strategy_named(GetParam()), "search"), p));
  for (const action& a : plan.actions) EXPECT_FALSE(std::holds_alternative<evict>(a));
}

// Were a rule ignored, leaving it out would change nothing. (What leaves by a twin has to be fetched, with or
// without a rule.)
TEST_P(search, every_rule_of_the_schedule_has_an_effect) {
  const hint_strategy& whole = hint_strategy_named(GetParam());
  for (const char* rule : {"passing", "fetch", "discard", "cut", "search"}) {
    if (rule == std::string("fetch") && GetParam() == std::string("twin")) continue;
    bool differs = false;
    for (const double ratio : {1.5, 2.0, 3.0}) {
      const problem p = problem_at(ratio);
      differs = differs || plan_hints(without_rule(whole, rule), p).actions != plan_hints(whole, p).actions;
    }
    EXPECT_TRUE(differs) << rule;
  }
}

INSTANTIATE_TEST_SUITE_P(rows, search, ::testing::Values("planned", "twin"),
                         [](const auto& each) { return std::string(each.param); });

// Slice by slice what passes on takes the same room, and nothing of it is given up and populated again; where
// that room is missing it is managed like the rest.
TEST_P(search, what_passes_from_neighbour_to_neighbour_lies_on_the_device_where_it_can) {
  const problem tight = problem_at(2);
  const memory_plan plan = plan_hints(hint_strategy_named(GetParam()), tight);
  int placed = 0;
  for (tensor_id t = 0; t < plan.residences.size(); ++t) {
    if (plan.residences[t] != residence::device) continue;
    ++placed;
    std::set<op_id> users;
    for (const action& a : plan.actions) {
      EXPECT_FALSE(std::holds_alternative<discard>(a) && std::get<discard>(a).tensor == t);
      const auto* c = std::get_if<compute>(&a);
      if (c == nullptr) continue;
      for (const um::access& x : accesses_of(tight.network, tight.network.ops[c->op], c->part)) {
        if (x.tensor == t) users.insert(c->op);
      }
    }
    EXPECT_EQ(*users.rbegin() - *users.begin() + 1, users.size()) << tight.network.tensors[t].name;
  }
  EXPECT_GT(placed, 0);
  // Just above 1 there is no room for it in an arena of its own, and without cuts none at 3.
  const problem full = problem_at(1.0);
  EXPECT_LE(lower(full, plan_hints(hint_strategy_named(GetParam()), full)).peak_device_bytes, full.budget);
}

// AlexNet's first tensors are no whole number of blocks at this batch: by a twin they would move whole for
// every slice, which no third of the footprint has room for.
TEST(twins, are_not_for_what_would_move_as_a_whole) {
  const graph g = small("", "alexnet", 512).g;
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const problem p{g, costs, m, footprint_of(g, costs).total / 3, evictor::plan, {}};
  const memory_plan plan = plan_hints(without_rule(hint_strategy_named("twin"), "search"), p);
  int left_managed = 0;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const bool large = g.tensors[t].role == role::activation && bytes_of(g.tensors[t]) > p.budget / 10;
    left_managed += large && plan.residences[t] == residence::managed ? 1 : 0;
  }
  EXPECT_GT(left_managed, 0);
  EXPECT_EQ(defect_of(g, plan), std::nullopt);
}

// A walk and lowering that disagree by a block must not end in a plan that its own budget refuses.
TEST(early_evictions, keep_the_budget_to_the_block) {
  const graph g = small("", "resnet50", 64, {.fusion_mode = fusion::fused, .arithmetic = precision::bf16}).g;
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const byte_count footprint = footprint_of(g, costs).total;
  for (const byte_count percent : {150U, 200U, 220U, 250U}) {
    const problem p{g, costs, m, footprint * 100 / percent, evictor::plan, {}};
    EXPECT_NO_THROW(lower(p, plan_hints(hint_strategy_named("deepum"), p))) << percent;
  }
}

TEST(timing_of_a_network, makes_it_faster) {
  const graph g = small("", "vgg11", 32, {.fusion_mode = fusion::fused}).g;
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const problem p{g, costs, m, footprint_of(g, costs).total / 2, evictor::plan, {}};
  memory_plan order = make_plan(g, make_sliced_order(g, p.budget / 4), residence::managed);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (g.tensors[t].role == role::activation && bytes_of(g.tensors[t]) >= managed_block)
      order.residences[t] = residence::twinned;
  }
  eviction_options rules;
  rules.order = evict_order::furthest_use;
  rules.prefetch_inputs = rules.populate_outputs = true;
  rules.is_discarded.assign(g.tensors.size(), true);
  const placement at = placement_of_draft(p, order, packers::searched);
  const memory_plan plan = make_room(p, order, at, rules);
  const memory_plan after = retime_evictions(p, plan, at);
  EXPECT_LT(expected_iteration_time(p, lower(p, after)),
            expected_iteration_time(p, lower(p, plan)) * 95 / 100);
}

}  // namespace
