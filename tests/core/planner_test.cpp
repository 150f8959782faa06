#include "core/planner.hpp"

#include <gtest/gtest.h>

#include "tests/core/chain.hpp"

namespace {

using namespace um;
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
  try {
    plan(101 + states, 100);
    FAIL() << "has a plan";
  } catch (const infeasible& e) {
    EXPECT_STREQ(e.what(), "had 100");
  }
}

}  // namespace
