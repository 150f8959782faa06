// Rules by dice, such as nobody would write: every plan that they come to is right, or there is none.
#include "tests/hints/random_rules.hpp"

#include <gtest/gtest.h>

#include <random>

#include "backends/simulator_backend.hpp"
#include "core/lower.hpp"
#include "core/verify.hpp"
#include "hints/hints.hpp"
#include "tests/machines.hpp"
#include "tests/planners/random_networks.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

std::string text_of(const hint_strategy& s) {
  std::string text;
  for (const hint_rule& r : s.rules) {
    text += std::string(rule_verb(r.policy)) + " of";
    for (const role use : r.tensors.roles) text += " " + std::string(to_text(use));
    text += " " + std::string(to_text(r.tensors.use));
    if (const auto* x = std::get_if<residence_rule>(&r.policy)) text += ", " + std::string(to_text(x->where));
    if (const auto* x = std::get_if<prefetch_rule>(&r.policy)) {
      text += ", " + std::string(to_text(x->side)) + " by " + std::string(to_text(x->unit)) + " " +
              std::to_string(x->ahead) + " " + std::string(to_text(x->source));
    }
    if (const auto* x = std::get_if<evict_rule>(&r.policy)) {
      text += ", " + std::string(to_text(x->when)) + " " + std::string(to_text(x->order)) + " " +
              std::to_string(x->gap) + " by " + std::string(to_text(x->means));
    }
    text += "; ";
  }
  return text;
}

// Whether there is a plan; then it is right.
bool makes_right_plan(const hint_strategy& s, const problem& p) {
  try {
    const memory_plan plan = plan_hints(s, p);
    EXPECT_EQ(defect_of(p.network, plan), std::nullopt);
    lower(p, plan);
    return true;
  } catch (const infeasible&) {
    return false;
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
    return false;
  }
}

// How many plans there are.
int expect_right_plans(const graph& g, std::uint32_t seed) {
  std::mt19937 dice(seed);
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const auto footprint = static_cast<double>(footprint_of(g, costs).total);
  int plans = 0;
  for (int i = 0; i < 8; ++i) {
    const hint_strategy s = random_rules(dice);
    const double ratio = std::array{0.9, 1.05, 1.25, 1.5, 2.0, 3.0, 5.0}.at(dice() % 7);
    const evictor evicted_by = dice() % 3 == 0 ? evictor::driver : evictor::plan;
    const problem p{g, costs, m, static_cast<byte_count>(footprint / ratio), evicted_by, {}};
    SCOPED_TRACE(std::to_string(seed) + " " + g.name + " " + std::to_string(ratio) + ": " + text_of(s));
    plans += makes_right_plan(s, p) ? 1 : 0;
  }
  return plans;
}

struct random_rules_on : ::testing::TestWithParam<std::string> {};

TEST_P(random_rules_on, verify_or_are_infeasible) {
  const graph g = small_graph(GetParam());
  int plans = 0;
  for (std::uint32_t seed = 0; seed < 3; ++seed) plans += expect_right_plans(g, seed);
  EXPECT_GE(plans, 8);
}

INSTANTIATE_TEST_SUITE_P(networks, random_rules_on, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& each) { return each.param; });

TEST(random_rules, verify_or_are_infeasible_on_random_networks) {
  int plans = 0;
  for (std::uint32_t seed = 0; seed < 16; ++seed) plans += expect_right_plans(random_network(seed, 40), seed);
  EXPECT_GE(plans, 16 * 2);
}

// An output that takes an operand's place lies where that still is when a prefetch is to come early.
TEST(prefetches, leave_room_of_twinned_outputs_to_those_who_have_it) {
  const graph g = small("", "alexnet", 16).g;
  const machine m = fast_test_machine();
  const profile costs = open_simulator(m)->measure_operators(g);
  const hint_strategy s{
      "early",
      "",
      {{"fetch", {}, prefetch_rule{operand_side::both, look_ahead_unit::operators, 2, fetch_source::network}},
       {"evict", {}, evict_rule{evict_when::pressure, evict_order::furthest_use, 0, evict_means::twin}}}};
  for (const byte_count percent : {125U, 150U, 200U})
    EXPECT_TRUE(
        makes_right_plan(s, {g, costs, m, footprint_of(g, costs).total * 100 / percent, evictor::plan, {}}));
}

}  // namespace
