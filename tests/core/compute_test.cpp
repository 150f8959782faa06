#include <gtest/gtest.h>

#include <limits>

#include "core/lower.hpp"
#include "core/memory_plan.hpp"
#include "core/verify.hpp"
#include "tests/core/chain.hpp"

namespace {

using namespace um;
using namespace um::testing;

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
  problem p() const { return {g, costs, m, std::numeric_limits<byte_count>::max(), pressure::none, {}, {}}; }
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
  const auto wrong = defect_of(g, plan);
  ASSERT_TRUE(wrong);
  EXPECT_NE(wrong->find("compute norm again: tensor mean holds no value"), std::string::npos) << *wrong;
}

TEST_F(repetition, is_no_first_time) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions[0] = as_cheap_recomputation(g, {0, {}});
  const auto wrong = defect_of(g, plan);
  ASSERT_TRUE(wrong);
  EXPECT_NE(wrong->find("tensor mean holds no value"), std::string::npos) << *wrong;
}

TEST_F(repetition, is_refused_where_there_is_none) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions.insert(plan.actions.begin() + 2, compute{1, {}, as_profiled, true});
  const auto wrong = defect_of(g, plan);
  ASSERT_TRUE(wrong);
  EXPECT_NE(wrong->find("operator relu (relu) takes nothing from the first time"), std::string::npos)
      << *wrong;
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
