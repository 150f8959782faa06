// Slicing where memory peaks: less memory, and no more slices than that takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "core/verify.hpp"
#include "planners/planners.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

byte_count most(const std::vector<byte_count>& live) {
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

std::int64_t slices_of(const memory_plan& plan) {
  return std::ranges::count_if(plan.actions,
                               [](const action& a) { return !is_whole(std::get<compute>(a).part); });
}

struct sliced : ::testing::Test {
  machine on;
  profile costs;
  memory_plan plan_for(const graph& g, std::int64_t parts) {
    costs.assign(g.ops.size(), {1000, 0, "test"});
    const problem p{g, costs, on, most_bytes, pressure::none, {{"parts", parts}}};
    memory_plan made = plan_sliced(p);
    EXPECT_EQ(defect_of(g, made), std::nullopt);
    least = most(live_bytes(p, made));
    whole = most(live_bytes(p, plan_resident(p)));
    arena = lower(p, made).device_arena_bytes;
    return made;
  }
  static constexpr byte_count most_bytes = std::numeric_limits<byte_count>::max();
  byte_count least = 0, whole = 0, arena = 0;
};

TEST_F(sliced, holds_less_where_activations_peak) {
  for (const char* name : {"vgg16", "alexnet"}) {
    const graph g = small(name, name, 64, {.joined = fusion::lean}).g;
    plan_for(g, 8);
    EXPECT_LT(least, whole) << name;
    EXPECT_LT(static_cast<double>(arena), 1.05 * static_cast<double>(least)) << name;
  }
}

TEST_F(sliced, uses_slices_of_the_size_asked_for) {
  const graph g = small("vgg11", "vgg11", 64, {.joined = fusion::fused}).g;
  for (const std::uint32_t parts : {2U, 4U, 16U}) {
    const memory_plan plan = plan_for(g, parts);
    EXPECT_GT(slices_of(plan), 0);
    for (const action& a : plan.actions) {
      const box& b = std::get<compute>(a).part;
      EXPECT_TRUE(is_whole(b) || b.batch.size() == 64 / parts);
    }
  }
}

TEST_F(sliced, leaves_whole_what_cannot_be_cut_or_gains_nothing) {
  const graph normalised = small("resnet", "resnet20_cifar", 64, {.joined = fusion::lean}).g;
  const graph few = small("vgg11", "vgg11", 2, {.joined = fusion::fused}).g;  // fewer images than parts
  for (const graph* g : {&normalised, &few}) {
    for (const action& a : plan_for(*g, 4).actions) {
      const compute& c = std::get<compute>(a);
      const bool batch_norms = std::holds_alternative<batch_norm>(g->ops[c.what].what);
      EXPECT_TRUE(is_whole(c.part) || !batch_norms) << g->ops[c.what].name;
      EXPECT_TRUE(g != &few || is_whole(c.part));
    }
    EXPECT_LE(least, whole);
  }
}

// Their first axis is not the batch, even if it is as long.
TEST_F(sliced, cuts_no_parameters) {
  for (const precision arithmetic : {precision::fp32, precision::bf16}) {
    const graph g =
        small("vgg11", "vgg11", 64, {.joined = fusion::fused, .arithmetic = arithmetic, .sgd = true}).g;
    const memory_plan plan = plan_for(g, 4);
    EXPECT_GT(slices_of(plan), 0) << to_text(arithmetic);
    for (const action& a : plan.actions) {
      const compute& c = std::get<compute>(a);
      if (is_whole(c.part)) continue;
      EXPECT_FALSE(std::holds_alternative<sgd_update>(g.ops[c.what].what)) << g.ops[c.what].name;
      EXPECT_NE(g.tensors[g.ops[c.what].out[0]].use, role::parameter) << g.ops[c.what].name;
    }
  }
}

TEST_F(sliced, lets_a_later_slice_keep_its_gradient_apart) {
  const graph g = small("vgg11", "vgg11", 64, {.joined = fusion::fused}).g;
  const memory_plan plan = plan_for(g, 4);
  costs.assign(g.ops.size(), {1000, 1024, "test"});
  const problem p{g, costs, on, most_bytes, pressure::none, {{"parts", 4}}};
  int adding = 0;
  for (const step& s : lower(p, plan).steps) {
    const compute& c = std::get<compute>(s.what);
    byte_count added = 0;
    for (const operand& o : s.operands) {
      if (o.what.mode != access_mode::accumulate) continue;
      if (!std::holds_alternative<convolution_backward_filter>(g.ops[c.what].what)) continue;
      added += round_up(bytes_of(g.tensors[o.what.what]), arena_alignment);
    }
    EXPECT_EQ(s.workspace_bytes, 1024 + added) << g.ops[c.what].name;
    EXPECT_TRUE(added == 0 || c.part.batch.begin > 0) << g.ops[c.what].name;
    adding += added > 0 ? 1 : 0;
  }
  EXPECT_GT(adding, 0);
}

TEST_F(sliced, gives_the_same_plan_every_time) {
  const graph g = small("alexnet", "alexnet", 64, {.joined = fusion::lean}).g;
  EXPECT_EQ(plan_for(g, 4), plan_for(g, 4));
}

}  // namespace
