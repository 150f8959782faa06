// Random plans byte by byte: in list order every read finds the tensor it is meant to find, operands lie
// apart and aligned, and no two steps of different lanes meet. strategies_test looks at every strategy's
// plans so.
#include "tests/planners/races.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/lower.hpp"
#include "core/verify.hpp"
#include "networks/builder.hpp"
#include "networks/passes.hpp"
#include "planners/planners.hpp"
#include "simulator/roofline.hpp"
#include "tests/machines.hpp"
#include "tests/planners/memory_replay.hpp"
#include "tests/planners/random_plans.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

// Operands of one compute lie apart, unless one takes the other's place.
void expect_operands_apart(const graph& g, const execution_plan& e) {
  for (const step& s : e.steps) {
    const auto* const c = std::get_if<compute>(&s.command);
    if (c == nullptr) continue;
    const op& o = g.ops[c->op];
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      const operand& x = s.operands[i];
      const byte_count x_end = x.location.offset + bytes_of(g.tensors[x.accessed.tensor], x.accessed.where);
      for (std::size_t k = std::max(i + 1, o.in.size()); k < s.operands.size(); ++k) {
        const operand& y = s.operands[k];
        const byte_count y_end = y.location.offset + bytes_of(g.tensors[y.accessed.tensor], y.accessed.where);
        if (x.location.where != y.location.where || x_end <= y.location.offset || y_end <= x.location.offset)
          continue;
        const bool in_place = o.alias && o.alias->input == i && o.alias->output + o.in.size() == k;
        EXPECT_TRUE(x.accessed.tensor == y.accessed.tensor || in_place)
            << to_text(g, s.command) << " operands " << i << " and " << k;
        EXPECT_EQ(x.location.offset, y.location.offset);
      }
    }
  }
}

void expect_aligned_operands(const graph& g, const execution_plan& e) {
  for (const step& s : e.steps) {
    const auto* const c = std::get_if<compute>(&s.command);
    if (c == nullptr) continue;
    for (const operand& o : s.operands) {
      const byte_count least =
          std::max(operand_alignment(g.ops[c->op]), element_bytes(g.tensors[o.accessed.tensor].type));
      ASSERT_EQ(o.location.offset % least, 0U)
          << to_text(g, s.command) << ": " << g.tensors[o.accessed.tensor].name;
    }
  }
}

profile costs_with_workspaces(const graph& g) {
  profile costs;
  for (op_id o = 0; o < g.ops.size(); ++o) costs.push_back({1000, o % 3 * 700'001, "test"});
  return costs;
}

TEST(races, are_found_where_nobody_waits) {
  const graph g = small_graph("vgg11");
  const profile costs = costs_with_workspaces(g);
  const strategy& by = *find_strategy(planners(), "swap_all");
  const machine on = test_machine();
  const problem p{
      g, costs, on, std::numeric_limits<byte_count>::max(), evictor::plan, complete_knobs(by, {})};
  execution_plan e = lower(p, by.plan(p));
  EXPECT_EQ(find_race(g, e), std::nullopt);
  for (step& s : e.steps) s.waits_for.fill(no_step);
  EXPECT_NE(find_race(g, e), std::nullopt);
}

void expect_right(const graph& g, const profile& costs, std::uint32_t seed, cuts how) {
  const machine on;
  const problem p{g, costs, on, std::numeric_limits<byte_count>::max(), evictor::none, {}};
  const memory_plan plan = random_plan(g, seed, how).make();
  ASSERT_EQ(defect_of(g, plan), std::nullopt);
  const execution_plan e = lower(p, plan, seed % 2 == 0 ? packers::searched : packers::first_fit);
  expect_every_read_finds_its_tensor(g, e);
  expect_operands_apart(g, e);
  expect_aligned_operands(g, e);
  ASSERT_EQ(find_race(g, e), std::nullopt);
}

struct random_plans : ::testing::TestWithParam<std::string> {};

TEST_P(random_plans, have_no_races) {
  const graph g = small_graph(GetParam());
  const profile costs = costs_with_workspaces(g);
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_right(g, costs, seed, cuts::of_the_batch);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(networks, random_plans, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

// Every kind of operator in extents that no number of parts divides.
graph tiny(bool joined, memory_order order) {
  builder b("tiny", pass::train);
  tensor_id x = b.input("x", {5, 6, 11, 3});
  x = b.max_pool("pool", b.relu("relu1", b.convolution("conv1", x, {7, 3, 1, 1})), 3, 2,
                 partial_windows::pooled);
  const tensor_id y = b.convolution("conv2", x, {7, 3, 1, 1, false});
  x = b.relu("relu2", b.add("add", b.batch_norm("norm", y), x));
  x = b.relu("relu3", b.convolution("conv3", x, {9, 5, 2, 2}));
  x = b.linear("fc", b.global_average_pool("mean", x), 10);
  const graph g = b.training(x, joined ? fusion::fused : fusion::none, true);
  return with_storage_format(g, precision::fp32, order);
}

struct tiny_network : ::testing::TestWithParam<bool> {};

TEST_P(tiny_network, has_no_races_in_random_plans) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const graph g = tiny(GetParam(), order);
    const profile costs = costs_with_workspaces(g);
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
      SCOPED_TRACE(std::string(to_text(order)) + " seed " + std::to_string(seed));
      expect_right(g, costs, seed, cuts::of_all_axes);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(fusion, tiny_network, ::testing::Bool());

}  // namespace
