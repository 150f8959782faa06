// Bounds, against what can be worked out by hand or by trying everything, and against every strategy.
#include "schedule/bounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/lower.hpp"
#include "planners/planners.hpp"
#include "schedule/closure.hpp"
#include "schedule/simplex.hpp"
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
    const std::vector<bool> chosen = best_closure(gain, needs);
    EXPECT_NEAR(value([&](std::size_t i) { return bool{chosen[i]}; }), most, 1e-9);
  }
}

// min x + 2y with x + y >= 2 and x <= 1.5: x = 1.5, y = 0.5.
TEST(simplex, solves_what_can_be_seen) {
  const linear_solution s = minimum_of({{1, 2}, {{{-1, -1}, -2}, {{1, 0}, 1.5}}});
  ASSERT_TRUE(s.bounded);
  EXPECT_NEAR(s.value, 2.5, 1e-9);
  EXPECT_NEAR(s.dual[0], 2, 1e-9);
  EXPECT_NEAR(s.dual[1], 1, 1e-9);
  EXPECT_FALSE(minimum_of({{1}, {{{-1}, -2}, {{1}, 1}}}).bounded) << "x cannot be 2 at least and 1 at most";
}

class bounds : public ::testing::TestWithParam<std::string> {
 protected:
  graph g = build(small_networks().at(GetParam()));
  machine on = test_machine();
  profile costs = estimate(g, on);
  byte_count footprint = footprint_of(g, costs).total;
  problem at(double ratio, knob_values knobs) {
    const auto budget = static_cast<byte_count>(static_cast<double>(footprint) / ratio);
    return {g, costs, on, budget, pressure::none, std::move(knobs), estimate_slices(g, on)};
  }
};

TEST_P(bounds, fall_with_the_budget_to_computing_alone) {
  time_bounds before{0, 0, 0, 0};
  for (const double ratio : {0.5, 1.0, 1.5, 2.0, 4.0, 8.0}) {
    const time_bounds b = bounds_of(at(ratio, {}));
    EXPECT_LE(b.both, std::min(b.swap, b.recompute));
    EXPECT_GE(b.both, b.compute);
    EXPECT_GE(b.swap, before.swap);
    EXPECT_GE(b.recompute, before.recompute);
    EXPECT_GE(b.both, before.both);
    if (ratio == 0.5) {
      EXPECT_EQ(b.swap + b.recompute, 2 * b.compute);
    }
    before = b;
  }
}

TEST_P(bounds, no_plan_is_below_that_of_its_class) {
  struct member {
    const char* strategy;
    knob_values knobs;
    nanoseconds time_bounds::*bound;
  };
  const std::vector<member> all{{"device", {}, &time_bounds::recompute},
                                {"swap_all", {{"ahead", 8}}, &time_bounds::swap},
                                {"best", {{"bits", 1}}, &time_bounds::both},
                                {"best", {}, &time_bounds::compute},
                                {"micro_batches", {}, &time_bounds::compute}};
  int held = 0;
  for (const double ratio : {1.0, 1.2, 1.5, 2.0, 3.0}) {
    for (const member& m : all) {
      const strategy& by = *find(planners(), m.strategy);
      const problem p = at(ratio, complete(by, m.knobs));
      try {
        const execution_plan steps = lower(p, by.plan(p), by.placed_by);
        for (const trace& t : simulate(p, steps, 2))
          EXPECT_GE(t.duration, bounds_of(p).*m.bound) << m.strategy << " at " << ratio;
        ++held;
      } catch (const infeasible&) {
      }
    }
  }
  EXPECT_GE(held, 5);
}

INSTANTIATE_TEST_SUITE_P(catalogue, bounds, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

}  // namespace
