// Bounds, against what can be worked out by hand or by trying everything, and against every strategy.
#include "schedule/bounds/bounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/errors.hpp"
#include "core/lower.hpp"
#include "planners/planners.hpp"
#include "schedule/bounds/closure.hpp"
#include "schedule/bounds/pass_bound.hpp"
#include "schedule/bounds/simplex.hpp"
#include "simulator/simulate.hpp"
#include "tests/schedule/random_decisions.hpp"

namespace {

using namespace um;
using namespace um::testing;

TEST(closure, is_the_best_of_all_subsets) {
  std::mt19937 dice(5);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 1 + dice() % 10;
    std::vector<double> gain(count);
    std::vector<std::vector<std::size_t>> needs(count);
    for (std::size_t i = 0; i < count; ++i) {
      gain[i] = static_cast<double>(dice() % 21) - 10;
      for (std::size_t k = 0; k < i; ++k) {
        if (dice() % 4 == 0) needs[i].push_back(k);
      }
    }
    const auto value = [&](const auto& holds) {
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (!holds(i)) continue;
        sum += gain[i];
        if (!std::ranges::all_of(needs[i], holds)) return -1e9;
      }
      return sum;
    };
    double most = 0;
    for (unsigned set = 0; set < 1U << count; ++set)
      most = std::max(most, value([&](std::size_t i) { return (set >> i & 1U) != 0; }));
    const std::vector<bool> chosen = max_weight_closure(gain, needs);
    EXPECT_NEAR(value([&](std::size_t i) { return bool{chosen[i]}; }), most, 1e-9);
  }
}

// min x + 2y with x + y >= 2 and x <= 1.5: x = 1.5, y = 0.5.
TEST(simplex, solves_what_can_be_seen) {
  const linear_solution s = minimize({{1, 2}, {{{-1, -1}, -2}, {{1, 0}, 1.5}}});
  ASSERT_TRUE(s.is_feasible);
  EXPECT_NEAR(s.value, 2.5, 1e-9);
  EXPECT_NEAR(s.dual[0], 2, 1e-9);
  EXPECT_NEAR(s.dual[1], 1, 1e-9);
  EXPECT_FALSE(minimize({{1}, {{{-1}, -2}, {{1}, 1}}}).is_feasible) << "x cannot be 2 at least and 1 at most";
}

using bounds = within_ratio;

TEST_P(bounds, fall_with_the_budget_to_computing_alone) {
  time_bounds before{0, {}, class_bounds{}};
  for (const double ratio : {0.5, 1.0, 1.5, 2.0, 4.0, 8.0}) {
    const time_bounds b = find_time_bounds(at(ratio, {}));
    for (const auto& [now, was] : {std::pair{b.two_passes, before.two_passes},
                                   std::pair{*b.whole_operators, *before.whole_operators}}) {
      EXPECT_LE(now.both, std::min(now.swap, now.recompute));
      EXPECT_GE(now.both, b.compute);
      if (ratio == 0.5) {
        EXPECT_EQ(now.swap, b.compute);
        EXPECT_EQ(now.recompute, b.compute);
      }
    }
    EXPECT_GE(b.two_passes.swap, before.two_passes.swap);
    EXPECT_GE(b.two_passes.recompute, before.two_passes.recompute);
    EXPECT_GE(b.two_passes.both, before.two_passes.both);
    EXPECT_GE(b.whole_operators->swap, b.two_passes.swap);
    EXPECT_GE(b.whole_operators->recompute, b.two_passes.recompute);
    EXPECT_GE(b.whole_operators->both, b.two_passes.both);
    before = b;
  }
}

TEST_P(bounds, no_plan_is_below_that_of_its_kind) {
  int held = 0, whole = 0;
  for (const double ratio : {1.3, 2.0}) {
    const time_bounds bound = find_time_bounds(at(ratio, {}));
    for (const strategy& by : planners()) {
      if (complete_knobs(by, {}).contains("nodes")) continue;  // of a solver's tree: it takes seconds
      const problem p = at(ratio, complete_knobs(by, {}));
      try {
        const memory_plan plan = by.plan(p);
        const execution_plan steps = lower(p, plan, by.packing_algorithm);
        const plan_kind kind = plan_kind_of(g, plan);
        const nanoseconds least = lower_bound_for(bound, kind);
        for (const trace& t : simulate(p, steps, 2))
          EXPECT_GE(t.duration, least) << by.name << " at " << ratio << ", " << to_text(kind.narrowest_class);
        ++held;
        whole += kind.narrowest_class == plan_class::whole_operators ? 1 : 0;
      } catch (const infeasible&) {
      } catch (const unsupported&) {
      }
    }
  }
  EXPECT_GE(held, 5);
  EXPECT_GE(whole, 1);
}

// AlexNet's largest weight and its gradient do not fit together: each iteration copies the weight in.
TEST(bounds, of_whole_plans_count_the_copy_of_a_weight_that_cannot_stay) {
  const graph g = small("alexnet", "alexnet", 8, {}).g;
  byte_count largest = 0;
  for (const tensor& t : g.tensors) largest = std::max(largest, t.role == role::parameter ? bytes_of(t) : 0);
  machine on = managed_test_machine();
  const profile costs = estimate(g, on);
  const byte_count budget = largest + largest / 10 * 9;
  on.link_to_device_bytes_per_s = on.link_to_host_bytes_per_s = 1'000'000'000;
  const time_bounds b = find_time_bounds({g, costs, on, budget, evictor::none, {}, {}});
  ASSERT_NE(b.whole_operators->swap, no_bound);
  EXPECT_GE(b.whole_operators->swap, time_at(largest, 1'000'000'000) / 10 * 9);
  EXPECT_GE(b.whole_operators->swap, 2 * b.compute) << "the copy takes longer than all operators";
}

// 1000 bytes of parameters and 1000 of gradients. Each pass takes 100 ns. The link copies a byte per ns in
// each direction.
TEST(two_passes, copy_what_does_not_fit_between_iterations) {
  passes x;
  x.forward_time = x.backward_time = 100;
  x.forward_start_bytes = x.gradient_bytes = 1000;
  machine m;
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = 1'000'000'000;
  EXPECT_EQ(bound_passes(x, m, 2000, {false, true}).min_time, 200);
  EXPECT_EQ(bound_passes(x, m, 1800, {true, true}).min_time, 200) << "hidden by both passes";
  EXPECT_EQ(bound_passes(x, m, 1500, {true, true}).min_time, 500);
  EXPECT_EQ(bound_passes(x, m, 1999, {false, true}).min_time, no_bound);
  m.link_to_host_bytes_per_s *= 2;
  EXPECT_EQ(bound_passes(x, m, 1500, {true, true}).min_time, 300) << "gradients leave twice as fast";
}

// Decisions by dice, whatever they need: a budget of just that.
TEST_P(bounds, no_decisions_by_dice_are_below_them) {
  std::mt19937 dice(17);
  problem unlimited = at(0.1, {});
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  for (int round = 0; round < 12; ++round) {
    // In odd rounds normalisations take less the second time.
    unlimited.cost_of_slice = round % 2 == 1 ? slice_costs{} : make_slice_estimator(g, on);
    const memory_plan plan =
        make_plan(g, uses, gaps, random_decisions(gaps, dice, 2 + static_cast<unsigned>(dice() % 6)));
    const execution_plan steps = lower(unlimited, plan);
    problem p = unlimited;
    p.budget = steps.device_arena_bytes;
    const plan_kind kind = plan_kind_of(g, plan);
    EXPECT_EQ(kind.narrowest_class, plan_class::whole_operators);
    const nanoseconds least = lower_bound_for(find_time_bounds(p), kind);
    EXPECT_LE(least, simulate(unlimited, steps, 2).back().duration) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(catalogue, bounds, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

}  // namespace
