#include "core/graph.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/refusal.hpp"

namespace um {
namespace {

// A convolution with a bias, a ReLU in place, an overlapping pool, a linear layer and its loss.
graph small_graph() {
  graph g{"small", {}, {}};
  g.tensors = {{"x", {2, 3, 8, 8}, dtype::f32, role::input},
               {"w", {4, 3, 3, 3}, dtype::f32, role::parameter},
               {"b", {1, 4, 1, 1}, dtype::f32, role::parameter},
               {"y", {2, 4, 8, 8}, dtype::f32, role::activation},
               {"r", {2, 4, 8, 8}, dtype::f32, role::activation},
               {"p", {2, 4, 4, 4}, dtype::f32, role::activation},
               {"index", {2, 4, 4, 4}, dtype::u8, role::activation},
               {"v", {5, 4, 4, 4}, dtype::f32, role::parameter},
               {"logits", {2, 5, 1, 1}, dtype::f32, role::activation},
               {"labels", {2, 1, 1, 1}, dtype::i32, role::label},
               {"loss", {1, 1, 1, 1}, dtype::f32, role::output},
               {"probabilities", {2, 5, 1, 1}, dtype::f32, role::activation},
               {"dlogits", {2, 5, 1, 1}, dtype::f32, role::activation_gradient},
               {"dv", {5, 4, 4, 4}, dtype::f32, role::parameter_gradient}};
  g.ops = {{"conv", convolution{1, 1, 1, 1}, {0, 1, 2}, {3}, true, std::nullopt},
           {"relu", relu{}, {3}, {4}, true, may_alias{0, 0}},
           {"pool", max_pool{3, 2, 0}, {4}, {5, 6}, true, std::nullopt},
           {"fc", linear{}, {5, 7}, {8}, true, std::nullopt},
           {"loss", softmax_cross_entropy{}, {8, 9}, {10, 11}, true, std::nullopt},
           {"dloss", softmax_cross_entropy_backward{}, {11, 9}, {12}, true, std::nullopt},
           {"dfc", linear_backward_filter{}, {5, 12}, {13}, true, std::nullopt},
           {"update", sgd_update{}, {7, 13}, {7}, false, std::nullopt}};
  return g;
}

void expect_defect(const graph& g, const std::string& part) {
  expect_words(defect_of(g).value_or(""), {part});
}

TEST(Graph, WellFormedHasNoDefect) {
  EXPECT_EQ(defect_of(small_graph()), std::nullopt);
}

TEST(Graph, TouchesEveryTensorOfItsOperatorsOnce) {
  graph g = small_graph();
  byte_count all = 0;
  for (const tensor& t : g.tensors) all += bytes_of(t);
  EXPECT_EQ(touched_bytes(g), all) << "the update reads and writes v: once";
  g.ops.pop_back();
  EXPECT_EQ(touched_bytes(g), all) << "others touch its operands";
  g.ops.pop_back();
  EXPECT_EQ(touched_bytes(g), all - bytes_of(g.tensors.back())) << "nothing touches dv now";
  g.ops.clear();
  EXPECT_EQ(touched_bytes(g), 0U);
}

TEST(Graph, SumsBytesByRole) {
  EXPECT_EQ(bytes_of(small_graph(), role::parameter), 4U * (108 + 4 + 320));
  EXPECT_EQ(bytes_of(small_graph(), role::output), 4U);
}

TEST(GraphDefect, IsNamed) {
  struct broken {
    const char* defect;
    void (*change)(graph&);
  };
  constexpr std::array all{
      broken{"operator relu (relu): names tensor 99 of 14", [](graph& g) { g.ops[1].in[0] = 99; }},
      broken{"takes 1 inputs and 2 outputs, not 1 and 1", [](graph& g) { g.ops[2].out.pop_back(); }},
      broken{"takes 2 to 1024 inputs and 1 outputs, not 1 and 1",
             [](graph& g) { g.ops[1].attributes = concat{}; }},
      broken{"takes 2 or 3 inputs and 1 outputs, not 1 and 1",
             [](graph& g) { g.ops[1].attributes = linear{}; }},
      broken{"second writer of r", [](graph& g) { g.ops.push_back(op(g.ops[1])); }},
      broken{"reads y before it is written", [](graph& g) { std::swap(g.ops[0], g.ops[1]); }},
      broken{"may not write r", [](graph& g) { g.tensors[4].role = role::input; }},
      broken{"relu", [](graph& g) { g.ops[1].in = {4}; }},
      broken{"not repeatable", [](graph& g) { g.ops.back().is_repeatable = true; }},
      broken{"updates v but writes w", [](graph& g) { g.ops.back().out[0] = 1; }},
      broken{"index holds u16, but u8 is wanted", [](graph& g) { g.tensors[6].type = dtype::u16; }},
      broken{"labels holds f32, but i32 is wanted", [](graph& g) { g.tensors[9].type = dtype::f32; }},
      broken{"r and p may alias but differ in size", [](graph& g) { g.ops[2].alias = may_alias{0, 0}; }},
      broken{"aliases an operand it does not have", [](graph& g) { g.ops[2].alias = may_alias{1, 0}; }},
      broken{"tensor x of shape 0x3x8x8 has an extent below 1", [](graph& g) { g.tensors[0].shape.n = 0; }},
      broken{"extent below 1", [](graph& g) { g.tensors[0].shape.n = -2; }}};
  for (const broken& one : all) {
    graph g = small_graph();
    one.change(g);
    expect_defect(g, one.defect);
  }
}

TEST(GraphDefect, PoolExtentMustFollowOneOfTheTwoRules) {
  graph g = small_graph();  // 8 rows, window 3, stride 2: 3 rounded down, 4 rounded up
  for (const std::int64_t extent : {2, 3, 4, 5}) {
    for (const tensor_id id : {5U, 6U}) g.tensors[id].shape.h = g.tensors[id].shape.w = extent;
    g.ops.resize(3);
    EXPECT_EQ(defect_of(g).has_value(), extent == 2 || extent == 5) << extent;
  }
}

TEST(GraphDefect, LargeWindowsNeedLargeIndices) {
  graph g{"pool", {}, {}};
  g.tensors = {{"x", {1, 1, 34, 34}, dtype::f32, role::input},
               {"y", {1, 1, 2, 2}, dtype::f32, role::output},
               {"index", {1, 1, 2, 2}, dtype::u8, role::activation}};
  g.ops = {{"pool", max_pool{17, 17, 0}, {0}, {1, 2}, true, std::nullopt}};
  expect_defect(g, "index holds u8, but u16 is wanted");
  g.tensors[2].type = dtype::u16;
  EXPECT_EQ(defect_of(g), std::nullopt);
}

TEST(GraphDefect, BytesBeyond63Bits) {
  graph g{"large", {{"x", {1LL << 60, 2, 1, 1}, dtype::f32, role::input}}, {}};
  expect_defect(g, "tensor x");
  g.tensors[0].shape = {1LL << 62, 1LL << 62, 1LL << 62, 1LL << 62};
  expect_defect(g, "does not fit in 2^63 bytes");
  g.tensors[0].shape = {1LL << 60, 1, 1, 1};
  EXPECT_EQ(defect_of(g), std::nullopt);
  g.tensors.push_back(g.tensors[0]);
  expect_defect(g, "all tensors together");
}

// Two opaque operators: one that can be cut and gives a sum, one that writes a parameter in place.
graph opaque_graph() {
  graph g{"elsewhere", {}, {}};
  g.tensors = {{"x", {4, 8, 1, 1}, dtype::f32, role::input},
               {"w", {3, 8, 1, 1}, dtype::f32, role::parameter},
               {"y", {4, 3, 1, 1}},
               {"mask", {4, 3, 1, 1}, dtype::u8},
               {"s", {1, 3, 1, 1}, dtype::f32, role::output}};
  opaque drop;
  drop.label = "dropout";
  drop.in = {batch_cut::part, batch_cut::whole};
  drop.out = {batch_cut::part, batch_cut::part, batch_cut::sum};
  opaque copy;
  copy.label = "copy";
  g.ops = {{"drop", drop, {0, 1}, {2, 3, 4}, false, std::nullopt},
           {"update", copy, {1, 4}, {1}, false, std::nullopt}};
  return g;
}

TEST(Opaque, TakesAnyOperands) {
  EXPECT_EQ(defect_of(opaque_graph()), std::nullopt);
  EXPECT_TRUE(has_opaque(opaque_graph()));
  EXPECT_FALSE(has_opaque(small_graph()));
}

TEST(Opaque, WritesAParameterInPlaceAlone) {
  graph g = opaque_graph();
  g.ops[1].is_repeatable = true;
  expect_defect(g, "may not write w");
  g = opaque_graph();
  g.ops[1].in = {4};
  expect_defect(g, "may not write w");
}

TEST(Opaque, SaysHowItsOperandsAreCut) {
  const auto broken = [](auto change) {
    graph g = opaque_graph();
    change(std::get<opaque>(g.ops[0].attributes.value));
    return g;
  };
  expect_defect(broken([](opaque& a) { a.in.pop_back(); }), "1 inputs and 3 outputs");
  expect_defect(broken([](opaque& a) { a.in[1] = batch_cut::sum; }), "w cannot be cut as sum");
  expect_defect(broken([](opaque& a) { a.out[0] = batch_cut::whole; }), "y cannot be cut as whole");
  expect_defect(broken([](opaque& a) { a.in[1] = batch_cut::part; }), "3 samples");
  expect_defect(broken([](opaque& a) {
                  a.in[0] = batch_cut::whole;
                  a.out = {batch_cut::sum, batch_cut::sum, batch_cut::sum};
                }),
                "along none");
  expect_defect(broken([](opaque& a) { a.label.clear(); }), "no label");
  graph g = opaque_graph();
  g.ops[0].out.clear();
  expect_defect(g, "and 0");
}

}  // namespace
}  // namespace um
