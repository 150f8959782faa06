// Mixed-integer programs against trying everything, and the program over gaps against plans.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/errors.hpp"
#include "core/lower.hpp"
#include "core/verify.hpp"
#include "schedule/fit_transfers.hpp"
#include "schedule/hill_climber.hpp"
#include "schedule/milp/gap_optimum.hpp"
#include "schedule/milp/mixed_program.hpp"
#include "tests/schedule/random_decisions.hpp"

namespace um {
namespace {

using namespace um::testing;

class with_highs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_mixed_solver()) GTEST_SKIP() << how_to_get_highs;
  }
};

using milp = with_highs;
using gap_programs = with_highs;

// Knapsacks: the most worth within the weight.
TEST_F(milp, is_the_best_of_all_choices) {
  std::mt19937 dice(11);
  for (int round = 0; round < 20; ++round) {
    mixed_program m;
    std::vector<double> worth, weight;
    std::vector<mixed_program::term> sum;
    for (int i = 0; i < 8; ++i) {
      worth.push_back(static_cast<double>(1 + dice() % 30));
      weight.push_back(static_cast<double>(1 + dice() % 30));
      sum.emplace_back(m.add_column(-worth.back(), 0, 1, true), weight.back());
    }
    m.add_at_most(sum, 50);
    double most = 0;
    for (unsigned set = 0; set < 256; ++set) {
      double w = 0, v = 0;
      for (std::size_t i = 0; i < 8; ++i) {
        w += (set >> i & 1U) != 0 ? weight[i] : 0;
        v += (set >> i & 1U) != 0 ? worth[i] : 0;
      }
      if (w <= 50) most = std::max(most, v);
    }
    const mixed_solution s = minimize(m, {0, 1000});
    ASSERT_TRUE(s.is_feasible);
    EXPECT_NEAR(s.value, -most, 1e-6);
    EXPECT_NEAR(s.lower_bound, -most, 1e-6);
  }
}

TEST_F(milp, tells_what_cannot_be) {
  mixed_program m;
  const mixed_program::column x = m.add_binary(), y = m.add_binary();
  m.add_at_least({{x, 1}, {y, 1}}, 3);
  const mixed_solution s = minimize(m, {});
  EXPECT_FALSE(s.is_feasible);
  EXPECT_TRUE(s.is_infeasible);
}

TEST_F(milp, adds_up_what_comes_twice_in_a_row) {
  mixed_program m;
  const mixed_program::column x = m.add_column(1, 0, 10);
  m.add_at_least({{x, 1}, {x, 1}}, 6);
  EXPECT_NEAR(minimize(m, {}).value, 3, 1e-9);
}

struct gap_setting {
  explicit gap_setting(const network_spec& spec)
      : g(build_network(spec)),
        on(both_ways_at_full_rate()),
        costs(estimate(g, on)),
        p{g, costs, on, std::numeric_limits<byte_count>::max(), evictor::none, {}, {}},
        uses(make_use_table(g, graph_order(g))),
        gaps(find_gaps(g, uses)),
        forecast(p, uses) {
    const std::vector<decision> kept(gaps.size());
    const std::vector<event> events = build_events(g, uses, gaps, kept);
    peak = forecast.forecast_memory(events, find_staged_tensors(uses, gaps, kept)).peak;
    live = live_at_positions(uses, events, forecast.live_bytes());
  }
  prediction said(const std::vector<decision>& decisions) {
    return forecast.forecast(build_events(g, uses, gaps, decisions),
                             find_staged_tensors(uses, gaps, decisions));
  }

  graph g;
  static machine both_ways_at_full_rate() {
    machine m = test_machine();
    m.link_both_bytes_per_s = m.link_to_device_bytes_per_s + m.link_to_host_bytes_per_s;
    return m;
  }

  machine on;  // whose link is as fast both ways at once, as the program has it
  profile costs;
  problem p;
  use_table uses;
  std::vector<gap> gaps;
  forecaster forecast;
  byte_count peak = 0;
  std::vector<byte_count> live;
};

TEST_F(gap_programs, decide_what_is_forecast_as_they_say) {
  gap_setting s(small_spec("alexnet", 64, {.fusion_mode = fusion::fused}));
  for (const byte_count percent : {90U, 80U}) {
    gap_program_options what;
    what.memory_bytes = s.peak * percent / 100;
    const gap_solution best = minimize(s.p, s.uses, s.gaps, s.forecast, s.live, what, {0.01, 1});
    ASSERT_TRUE(best.is_feasible) << percent;
    EXPECT_LE(best.bound, best.time);
    const prediction said = s.said(best.decisions);
    EXPECT_LE(said.peak, what.memory_bytes + what.memory_bytes / 50) << percent;
    // The order of copies and who takes whose place is not in the program.
    EXPECT_LE(said.time, best.time + best.time / 4) << percent;
    EXPECT_EQ(defect_of(s.g, make_plan(s.g, s.uses, s.gaps, best.decisions)), std::nullopt);
  }
}

TEST_F(gap_programs, are_bounds_for_all_decisions_within_the_room) {
  gap_setting s(small_spec("alexnet", 16, {.fusion_mode = fusion::fused}));
  std::mt19937 dice(3);
  for (int round = 0; round < 1; ++round) {
    const std::vector<decision> decisions = random_decisions(s.gaps, dice, 3);
    const prediction said = s.said(decisions);
    gap_program_options what;
    what.memory_bytes = said.peak;
    what.min_part_bytes = 64 * KiB;
    what.max_slots = 1000;
    const gap_solution best = minimize(s.p, s.uses, s.gaps, s.forecast, s.live, what, {0.05, 1});
    EXPECT_FALSE(best.is_infeasible);
    EXPECT_LE(best.bound, said.time);
  }
}

// Numbers, each with those one and ten away; `cost` says what they are.
struct numbers {
  std::function<std::optional<int>(int)> cost;
  std::vector<int> asked;
  bool stops = false;

  hill_climber<int, int> within(std::size_t most) {
    return {{[](int at) {
               return std::vector<neighbour_group<int>>{{"one away", {at - 1, at + 1}},
                                                        {"ten away", {at - 10, at + 10}}};
             },
             [this](std::span<const int> all, const std::string&) -> search_problem<int, int>::costs {
               if (stops) return std::nullopt;
               std::vector<std::optional<int>> costs;
               for (const int x : all) {
                 asked.push_back(x);
                 costs.push_back(cost(x));
               }
               return costs;
             },
             [](const rated<int, int>& from, const rated<int, int>& to) {
               return !from.cost || *to.cost < *from.cost;
             }},
            most};
  }
};

TEST(hill_climber, goes_down_to_where_no_neighbour_is_better) {
  numbers n{[](int x) { return std::abs(x - 42); }, {}};
  EXPECT_EQ(n.within(1000).climb(0), 42);
}

TEST(hill_climber, ends_in_a_hollow_and_leaves_it_only_by_a_kind_that_reaches_further) {
  numbers n{[](int x) { return x == 42 ? 0 : std::abs(x - 50) + 1; }, {}};
  EXPECT_EQ(n.within(1000).climb(3), 50) << "42 is eight away";
  EXPECT_EQ(n.within(1000).climb(31), 42) << "by 32";
}

TEST(hill_climber, rates_nothing_twice_and_no_more_than_it_may) {
  numbers n{[](int x) { return std::abs(x - 42); }, {}};
  hill_climber<int, int> by = n.within(12);
  by.climb(0);
  EXPECT_EQ(n.asked.size(), 12U);
  EXPECT_FALSE(by.may_continue());
  std::ranges::sort(n.asked);
  EXPECT_EQ(std::ranges::adjacent_find(n.asked), n.asked.end());
  EXPECT_EQ(by.rated_points().size(), n.asked.size());
}

TEST(hill_climber, steps_over_what_cannot_be_and_begins_there_if_it_must) {
  numbers n{[](int x) { return x % 10 == 0 && x != 40 ? std::nullopt : std::optional(std::abs(x - 42)); },
            {}};
  EXPECT_EQ(n.within(1000).climb(0), 42);
}

TEST(hill_climber, stops_when_told_so) {
  numbers n{[](int x) { return x; }, {}, true};
  hill_climber<int, int> by = n.within(10);
  EXPECT_EQ(by.climb(5), 5);
  EXPECT_TRUE(by.stopped());
  EXPECT_TRUE(by.rated_points().empty());
}

}  // namespace
}  // namespace um
