#include "simulator/roofline.hpp"

#include <gtest/gtest.h>

#include "core/errors.hpp"
#include "networks/catalogue.hpp"
#include "tests/refusal.hpp"
#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

// conv1: 1 x 1 kernel, so its work can be counted by hand.
graph one_convolution(std::int64_t channels, std::int64_t filters = 16) {
  graph g;
  g.name = "one";
  g.tensors = {{"x", {2, channels, 8, 8}, dtype::f32, role::input},
               {"w", {filters, channels, 1, 1}, dtype::f32, role::parameter},
               {"y", {2, filters, 8, 8}, dtype::f32, role::output}};
  g.ops = {{"conv", convolution{}, {0, 1}, {2}, true, {}}};
  return g;
}

TEST(roofline, takes_the_longer_of_arithmetic_and_traffic_and_one_launch) {
  machine m = round_machine();
  m.launch_ns = 7;
  m.fp32_flops_per_s = 1'000'000'000;  // one a nanosecond
  m.device_bytes_per_s = 1'000'000'000;
  const std::int64_t flops = 2 * 2 * 16 * 8 * 8 * 32;
  const std::int64_t moved = 4 * (2 * 32 * 64 + 16 * 32 + 2 * 16 * 64);
  ASSERT_EQ(flops, 131072);
  ASSERT_EQ(moved, 26624);
  const graph g = one_convolution(32);
  EXPECT_EQ(estimate(g, m).at(0).time, flops + 7);
  m.fp32_flops_per_s *= 1000;
  EXPECT_EQ(estimate(g, m).at(0).time, moved + 7);
  EXPECT_EQ(estimate(g, m).at(0).workspace_bytes, 0U);
  EXPECT_EQ(estimate(g, m).at(0).engine, "roofline");
}

TEST(roofline, products_take_the_rate_of_their_precision) {
  machine m = round_machine();
  m.fp32_flops_per_s = 1'000'000'000;
  m.tf32_flops_per_s = 2'000'000'000;
  m.bf16_flops_per_s = 4'000'000'000;
  m.device_bytes_per_s *= 1000;
  graph g = one_convolution(32, 96);
  const nanoseconds fp32 = estimate(g, m).at(0).time;
  g.arithmetic = precision::tf32;
  EXPECT_EQ(estimate(g, m).at(0).time, fp32 / 2);
  g.arithmetic = precision::bf16;
  EXPECT_EQ(estimate(g, m).at(0).time, fp32 / 4);
}

TEST(roofline, few_output_channels_take_matrix_units_the_time_of_96) {
  machine m = round_machine();
  m.launch_ns = 0;
  m.fp32_flops_per_s = m.bf16_flops_per_s = 1'000'000'000;
  m.device_bytes_per_s *= 1000;
  const auto time_of = [&](graph g, precision arithmetic) {
    g.arithmetic = arithmetic;
    return estimate(g, m).at(0).time;
  };
  const graph narrow = one_convolution(48, 32), wide = one_convolution(32, 128);
  EXPECT_EQ(time_of(narrow, precision::bf16), 3 * time_of(narrow, precision::fp32));
  EXPECT_EQ(time_of(wide, precision::bf16), time_of(wide, precision::fp32));

  graph gradient = narrow;  // of the input, which has 48 channels
  gradient.tensors[2].role = role::input;
  gradient.tensors[0].role = role::output;
  gradient.ops = {{"dx", convolution_backward_data{}, {1, 2}, {0}, true, {}}};
  EXPECT_EQ(time_of(gradient, precision::bf16), 2 * time_of(gradient, precision::fp32));
  gradient.tensors[0].role = role::input;
  gradient.tensors[1].role = role::output;
  gradient.ops = {{"dw", convolution_backward_filter{}, {0, 2}, {1}, true, {}}};
  EXPECT_EQ(time_of(gradient, precision::bf16), 3 * time_of(gradient, precision::fp32));

  graph depthwise = one_convolution(1, 32);
  depthwise.tensors[0].shape.c = 32;
  std::get<convolution>(depthwise.ops[0].attributes.value).groups = 32;
  EXPECT_EQ(time_of(depthwise, precision::bf16), time_of(depthwise, precision::fp32)) << "no tiles there";
}

TEST(roofline, depthwise_convolutions_take_twice_their_traffic_whatever_share_others_reach) {
  machine m = round_machine();
  m.launch_ns = 7;
  m.fp32_flops_per_s = 1'000'000'000'000'000;
  m.device_bytes_per_s = 1'000'000'000;  // one byte a nanosecond
  m.operators = {{"convolution", "fp32", 0, 50}};
  graph g = one_convolution(32, 32);
  g.tensors[1].shape.c = 1;
  std::get<convolution>(g.ops[0].attributes.value).groups = 32;
  EXPECT_EQ(estimate(g, m).at(0).time, 2 * 4 * (2 * 32 * 64 + 32 + 2 * 32 * 64) + 7);
  g.tensors[1].shape.c = 2;
  std::get<convolution>(g.ops[0].attributes.value).groups = 16;
  EXPECT_EQ(estimate(g, m).at(0).time, 2 * 4 * (2 * 32 * 64 + 64 + 2 * 32 * 64) + 7)
      << "the file's share, of other groups";
}

TEST(roofline, what_is_no_product_takes_the_plain_rate_in_every_precision) {
  machine m = round_machine();
  m.fp32_flops_per_s = 1'000'000;
  m.bf16_flops_per_s = 1'000'000'000'000;
  graph g;
  g.name = "one";
  g.tensors = {{"x", {2, 4, 8, 8}, dtype::bf16, role::input}, {"y", {2, 4, 8, 8}, dtype::bf16, role::output}};
  g.ops = {{"relu", relu{}, {0}, {1}, true, {}}};
  const nanoseconds plain = estimate(g, m).at(0).time;
  EXPECT_GT(plain, 100'000);
  g.arithmetic = precision::bf16;
  EXPECT_EQ(estimate(g, m).at(0).time, plain);
}

TEST(roofline, a_precision_without_units_is_not_supported) {
  machine m = round_machine();
  m.tf32_flops_per_s = 1;
  graph g = one_convolution(1);
  g.arithmetic = precision::bf16;
  expect_words(refusal<unsupported>([&] { estimate(g, m); }), {"machine round does not compute in bf16"});
}

TEST(roofline, covers_every_operator_of_a_network) {
  const graph g = build_network({.name = "alexnet", .batch = 4, .appends_sgd = true});
  const profile p = estimate(g, round_machine());
  ASSERT_EQ(p.size(), g.ops.size());
  for (const op_cost& c : p) EXPECT_GT(c.time, 0);
}

TEST(roofline, names_the_rate_a_machine_lacks) {
  machine m = round_machine();
  m.fp32_flops_per_s = 0;
  expect_words(refusal<std::invalid_argument>([&] { estimate(one_convolution(1), m); }),
               {"machine round has no fp32_flops_per_s"});
}

TEST(roofline, refuses_times_beyond_the_clock) {
  machine m = round_machine();
  m.fp32_flops_per_s = 1;
  EXPECT_GT(estimate(one_convolution(1), m).at(0).time, 1'000'000'000);
  EXPECT_THROW(estimate(one_convolution(1 << 20), m), std::invalid_argument);
}

TEST(Roofline, OpaqueTakesItsTimeOrWhatTheRatesSay) {
  machine on;
  on.name = "made_up";
  on.fp32_flops_per_s = 1'000'000'000;
  on.tf32_flops_per_s = 4'000'000'000;
  on.device_bytes_per_s = 1'000'000'000;
  on.launch_ns = 50;
  graph g{"own", {}, {}};
  g.arithmetic = precision::tf32;
  g.tensors = {{"x", {4, 4, 1, 1}, dtype::f32, role::input}, {"y", {4, 4, 1, 1}}};
  opaque what;
  what.label = "mm";
  what.flops = 8000;
  what.bytes = 1000;
  what.workspace_bytes = 77;
  what.in = what.out = {batch_cut::part};
  g.ops = {{"op", what, {0}, {1}, true, std::nullopt}};
  auto& own = std::get<opaque>(g.ops[0].attributes.value);
  EXPECT_EQ(estimate(g, on)[0].time, 8000 + 50);
  EXPECT_EQ(estimate(g, on)[0].workspace_bytes, 77U);
  EXPECT_EQ(std::get<opaque>(with_opaque_durations(g, on).ops[0].attributes.value).duration, 8050);
  own.products = true;
  EXPECT_EQ(estimate(g, on)[0].time, 2000 + 50) << "by the matrix units";
  own.bytes = 3000;
  EXPECT_EQ(estimate(g, on)[0].time, 3000 + 50) << "memory is slower";
  own.duration = 1050;
  EXPECT_EQ(estimate(g, on)[0].time, 1050);
  EXPECT_EQ(std::get<opaque>(with_opaque_durations(g, on).ops[0].attributes.value).duration, 1050);
  EXPECT_EQ(make_slice_estimator(g, on)({0, {{0, 1}, {}, {}, {}}}).time, 250 + 50)
      << "a quarter, and a launch";
}

TEST(roofline, an_operator_keeps_the_pace_of_its_kind_precision_and_filter) {
  machine on = round_machine();
  on.launch_ns = 0;
  const graph g = one_convolution(64);
  const nanoseconds whole = estimate(g, on).front().time;
  on.operators = {
      {"convolution", "fp32", 3, 10}, {"convolution", "bf16", 0, 10}, {"convolution", "fp32", 1, 50}};
  EXPECT_EQ(estimate(g, on).front().time, 2 * whole);
  on.operators.pop_back();
  EXPECT_EQ(estimate(g, on).front().time, whole) << "of other filters, in another precision";
}

TEST(roofline, a_pace_beyond_the_arithmetics_saves_no_bytes) {
  machine on = round_machine();
  on.launch_ns = 0;
  const graph g = one_convolution(64);
  const std::uint64_t rate = on.fp32_flops_per_s;
  on.fp32_flops_per_s *= 1'000'000;
  const nanoseconds bytes = estimate(g, on).front().time;
  on.fp32_flops_per_s = rate / 100;
  const nanoseconds whole = estimate(g, on).front().time;
  ASSERT_GT(whole, 4 * bytes) << "arithmetic holds it up";
  on.operators = {{"convolution", "fp32", 1, 200}};
  EXPECT_EQ(estimate(g, on).front().time, whole / 2);
  on.operators = {{"convolution", "fp32", 1, 1'000'000}};
  EXPECT_EQ(estimate(g, on).front().time, bytes);
}

}  // namespace
}  // namespace um
