#include "core/planner.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/lower.hpp"
#include "core/memory_plan.hpp"
#include "core/stretches.hpp"
#include "core/verify.hpp"
#include "tests/core/chain.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

using namespace um::testing;

// A chain with an optimizer's states, and a strategy that needs a fixed budget and says which it had.
struct states_on_host : ::testing::Test {
  static constexpr byte_count states = 8 * chain_bytes;
  graph g = chain(1);
  machine m;
  profile costs;

  states_on_host() { g.tensors.push_back({"moments", {32, 256, 32, 8}, dtype::f32, role::state}); }

  memory_plan plan(byte_count needed, byte_count budget) {
    const strategy s{"needy", "", [needed](const problem& p) {
                       if (p.budget < needed) throw infeasible("had " + std::to_string(p.budget));
                       memory_plan all;
                       all.residences.assign(p.network.tensors.size(), residence::device);
                       return all;
                     }};
    return plan_for(s, {.network = g, .operator_costs = costs, .target = m, .budget = budget, .knobs = {}});
  }
};

TEST_F(states_on_host, stay_on_the_device_where_all_fits) {
  EXPECT_EQ(plan(100, 100).residences.back(), residence::device);
}

TEST_F(states_on_host, leave_where_the_rest_fits) {
  const memory_plan found = plan(100 + states, 100);
  EXPECT_EQ(found.residences.back(), residence::host);
  EXPECT_EQ(found.residences.front(), residence::device);
}

TEST_F(states_on_host, are_not_named_in_the_reason_where_nothing_fits) {
  EXPECT_EQ(refusal<infeasible>([&] { plan(101 + states, 100); }), "had 100");
}

step in(lane where, last_steps after = no_steps) {
  step s;
  s.in_lane = where;
  s.waits_for = after;
  return s;
}

using pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

pairs stretches_of(const std::vector<step>& steps) {
  pairs all;
  for (const index_range& s : cut_into_stretches(steps).stretches) all.emplace_back(s.first, s.last);
  return all;
}

constexpr std::size_t out = static_cast<std::size_t>(lane::to_host);

TEST(stretches, are_one_where_nothing_is_copied) {
  EXPECT_EQ(stretches_of({in(lane::compute), in(lane::compute), in(lane::compute)}), (pairs{{0, 2}}));
  EXPECT_EQ(stretches_of({}), pairs{});
}

TEST(stretches, end_where_a_copy_waits_and_begin_where_one_is_waited_for) {
  last_steps behind_1 = no_steps, behind_2 = no_steps;
  behind_1[static_cast<std::size_t>(lane::compute)] = 1;
  behind_2[out] = 2;
  const std::vector<step> steps{in(lane::compute), in(lane::compute),           in(lane::to_host, behind_1),
                                in(lane::compute), in(lane::compute, behind_2), in(lane::compute)};
  EXPECT_EQ(stretches_of(steps), (pairs{{0, 1}, {3, 3}, {4, 5}}));
  const stretch_cut order = cut_into_stretches(steps);
  EXPECT_EQ(order.is_awaited, (std::vector<bool>{false, true, true, false, false, false}));
}

// Who waited for a step needs not wait for it again, nor for one before it.
TEST(stretches, go_on_where_what_is_waited_for_is_known_to_have_ended) {
  last_steps first = no_steps, second = no_steps;
  first[out] = 0;
  second[out] = 1;
  const std::vector<step> steps{in(lane::to_host), in(lane::to_host), in(lane::compute, second),
                                in(lane::compute, first), in(lane::compute, second)};
  EXPECT_EQ(stretches_of(steps), (pairs{{2, 4}}));
  EXPECT_EQ(cut_into_stretches(steps).is_awaited, (std::vector<bool>{false, true, false, false, false}));
}

TEST(stretches, keep_every_wait_of_random_steps) {
  std::minstd_rand engine(1);
  const auto dice = [&] { return static_cast<std::uint32_t>(engine()); };
  for (int round = 0; round < 200; ++round) {
    std::vector<step> steps;
    const std::uint32_t count = 1 + dice() % 40;
    for (std::uint32_t i = 0; i < count; ++i) {
      step s = in(static_cast<lane>(dice() % lane_count));
      for (std::uint32_t tries = dice() % 3; i > 0 && tries > 0; --tries) {
        const std::uint32_t other = dice() % i;
        if (steps[other].in_lane != s.in_lane)
          s.waits_for[static_cast<std::size_t>(steps[other].in_lane)] = static_cast<std::int32_t>(other);
      }
      steps.push_back(s);
    }
    const stretch_cut order = cut_into_stretches(steps);
    std::vector<std::uint32_t> launched;  // steps of the compute lane
    std::size_t within = 0;
    for (const index_range& s : order.stretches) {
      for (std::uint32_t i = s.first; i <= s.last; ++i) {
        if (steps[i].in_lane != lane::compute) continue;
        launched.push_back(i);
        EXPECT_TRUE(i == s.first || order.waits_for[i] == no_steps) << "waits within a stretch";
        EXPECT_TRUE(i == s.last || !order.is_awaited[i]) << "is waited for within a stretch";
        if (i != s.first) ++within;
      }
    }
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (steps[i].in_lane == lane::compute) wanted.push_back(i);
      for (std::size_t other = 0; other < lane_count; ++other) {
        std::int32_t ended = no_step;  // when step i begins
        for (std::uint32_t before = 0; before <= i; ++before) {
          if (steps[before].in_lane == steps[i].in_lane)
            ended = std::max(ended, order.waits_for[before][other]);
        }
        EXPECT_GE(ended, steps[i].waits_for[other]) << "step " << i << " of round " << round;
        if (order.waits_for[i][other] != no_step) {
          EXPECT_EQ(order.waits_for[i][other], steps[i].waits_for[other]);
          EXPECT_TRUE(order.is_awaited[static_cast<std::size_t>(order.waits_for[i][other])]);
        }
      }
    }
    EXPECT_EQ(launched, wanted);
    EXPECT_EQ(within + order.stretches.size(), wanted.size());
  }
}

// x -> norm -> y -> relu -> z, then something that reads y, z and the statistics.
struct repetition : ::testing::Test {
  graph g;
  machine m;
  profile costs;
  tensor_id x, scale, shift, y, mean, deviation, z;

  repetition() {
    const auto add = [&](const std::string& name, const dims& shape, role use) {
      g.tensors.push_back({name, shape, dtype::f32, use});
      return static_cast<tensor_id>(g.tensors.size() - 1);
    };
    const dims wide{4, 16, 32, 32}, vector{1, 16, 1, 1};
    x = add("x", wide, role::input);
    scale = add("scale", vector, role::parameter);
    shift = add("shift", vector, role::parameter);
    y = add("y", wide, role::activation);
    mean = add("mean", vector, role::activation);
    deviation = add("deviation", vector, role::activation);
    z = add("z", wide, role::activation);
    const tensor_id dx = add("dx", wide, role::output), dscale = add("dscale", vector, role::output),
                    dshift = add("dshift", vector, role::output);
    g.ops = {{"norm", batch_norm{}, {x, scale, shift}, {y, mean, deviation}, true, {}},
             {"relu", relu{}, {y}, {z}, true, {}},
             {"back", relu_backward{}, {z, y}, {add("dy", wide, role::activation_gradient)}, true, {}},
             {"norm_back",
              batch_norm_backward{},
              {x, scale, shift, mean, deviation, 0},
              {dx, dscale, dshift},
              true,
              {}}};
    g.ops.back().in.back() = g.ops[2].out.front();
    costs = costs_of(g, 4096);
    m.launch_ns = 100;
  }

  // y goes behind the ReLU and comes again before what reads it.
  memory_plan given_up() const {
    memory_plan plan = in_order(g, residence::device);
    plan.actions.insert(plan.actions.begin() + 2, {discard{y, {}}, as_cheap_recomputation(g, {0, {}})});
    return plan;
  }
  problem p() const { return {g, costs, m, std::numeric_limits<byte_count>::max(), evictor::none, {}, {}}; }
};

TEST_F(repetition, is_a_normalisation_with_the_statistics_of_the_first_time) {
  const compute second = as_cheap_recomputation(g, {0, {}});
  ASSERT_TRUE(second.cheap_recompute);
  const op o = operator_of(g, second);
  EXPECT_TRUE(has_kind<normalize>(o));
  EXPECT_EQ(o.in, (std::vector<tensor_id>{x, scale, shift, mean, deviation}));
  EXPECT_EQ(o.out, std::vector<tensor_id>{y});
  EXPECT_FALSE(as_cheap_recomputation(g, {1, {}}).cheap_recompute)
      << "a ReLU takes nothing from the first time";
  EXPECT_EQ(to_text(g, action{second}), "compute norm again");
}

TEST_F(repetition, restores_the_value) {
  EXPECT_EQ(defect_of(g, given_up()), std::nullopt);
}

TEST_F(repetition, needs_the_statistics) {
  memory_plan plan = given_up();
  plan.actions.insert(plan.actions.begin() + 3, discard{mean, {}});
  expect_words(defect_of(g, plan).value_or(""), {"compute norm again: tensor mean holds no value"});
}

TEST_F(repetition, is_no_first_time) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions[0] = as_cheap_recomputation(g, {0, {}});
  expect_words(defect_of(g, plan).value_or(""), {"tensor mean holds no value"});
}

TEST_F(repetition, is_refused_where_there_is_none) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions.insert(plan.actions.begin() + 2, compute{1, {}, as_profiled, true});
  expect_words(defect_of(g, plan).value_or(""), {"operator relu (relu) takes nothing from the first time"});
}

TEST_F(repetition, takes_no_workspace_and_its_share_of_the_time) {
  const execution_plan steps = lower(p(), given_up());
  const step& first = steps.steps[0];
  const step& second = steps.steps[3];
  EXPECT_EQ(first.workspace_bytes, 4096U);
  EXPECT_EQ(second.workspace_bytes, 0U);
  ASSERT_EQ(second.operands.size(), 6U);
  EXPECT_EQ(second.operands[3].accessed.mode, access_mode::read);
  EXPECT_EQ(second.operands[3].location.offset, first.operands[4].location.offset)
      << "the mean where it was written";
  // x is read twice the first time: three moves of a tensor for two.
  const op_cost cost = cost_of(p(), as_cheap_recomputation(g, {0, {}}));
  EXPECT_NEAR(static_cast<double>(cost.time), 100 + 900 * 2.0 / 3, 5);
  EXPECT_EQ(cost.workspace_bytes, 0U);
}

}  // namespace
}  // namespace um
