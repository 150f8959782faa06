// The forward operators of the reference against values worked out by hand; the backward ones are held
// against differences of these (complete_test.cpp, gradients_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/reference/reference.hpp"

namespace um::reference {
namespace {

std::vector<values> apply(op_attributes what, const std::vector<dims>& in_shapes,
                          const std::vector<dims>& out_shapes, const std::vector<values>& in) {
  graph g;
  op o{"op", what, {}, {}, true, std::nullopt};
  for (const auto& [shapes, ids] : {std::pair{&in_shapes, &o.in}, {&out_shapes, &o.out}}) {
    for (const dims& shape : *shapes) {
      ids->push_back(static_cast<tensor_id>(g.tensors.size()));
      g.tensors.push_back({"t" + std::to_string(g.tensors.size()), shape, dtype::f32, role::activation});
    }
  }
  return execute(g, o, in);
}

void expect_values(const values& got, const values& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_DOUBLE_EQ(got[i], wanted[i]) << "at " << i;
}

const values counted{1, 2, 3, 4, 5, 6, 7, 8, 9};  // a 3 x 3 image
const dims image{1, 1, 3, 3}, kernel{1, 1, 2, 2}, one{};

TEST(Operator, ConvolutionIsCrossCorrelation) {
  // The filter is not flipped: 1*1 + 2*10 + 4*100 + 5*1000 = 5421.
  expect_values(
      apply(convolution{}, {image, kernel, one}, {{1, 1, 2, 2}}, {counted, {1, 10, 100, 1000}, {0.5}})[0],
      {5421.5, 6532.5, 8754.5, 9865.5});
}

TEST(Operator, ConvolutionPadsWithZerosAndStrides) {
  // Windows at rows and columns -1 and 1.
  expect_values(
      apply(convolution{2, 2, 1, 1}, {image, kernel}, {{1, 1, 2, 2}}, {counted, {1, 10, 100, 1000}})[0],
      {1000, 3200, 7040, 9865});
}

TEST(Operator, ConvolutionSumsOverChannels) {
  // Two images of one pixel and two channels, three filters.
  expect_values(apply(convolution{}, {{2, 2, 1, 1}, {3, 2, 1, 1}, {1, 3, 1, 1}}, {{2, 3, 1, 1}},
                      {{1, 2, 3, 4}, {1, 0, 0, 1, 1, 1}, {10, 20, 30}})[0],
                {11, 22, 33, 13, 24, 37});
}

TEST(Operator, Relu) {
  const dims row{1, 4, 1, 1};
  expect_values(apply(relu{}, {row}, {row}, {{-1, 0, 2, -3}})[0], {0, 0, 2, 0});
  // Nothing passes where the output is 0.
  expect_values(apply(relu_backward{}, {row, row}, {row}, {{0, 0, 2, 3}, {5, 6, 7, 8}})[0], {0, 0, 7, 8});
}

TEST(Operator, MaxPoolFindsThePositionInTheWindow) {
  const dims pooled{1, 1, 2, 2};
  const auto all = apply(max_pool{2, 1, 0}, {image}, {pooled, pooled}, {{1, 9, 1, 3, 9, 2, 7, 1, 9}});
  expect_values(all[0], {9, 9, 9, 9});
  expect_values(all[1], {1, 0, 1, 0});  // the first of two maxima wins
}

TEST(Operator, MaxPoolClipsWindowsThatOverhang) {
  const dims pooled{1, 1, 2, 2};
  const auto below = apply(max_pool{2, 2, 0}, {image}, {pooled, pooled}, {counted});
  expect_values(below[0], {5, 6, 8, 9});
  expect_values(below[1], {3, 2, 1, 0});
  const auto padded =
      apply(max_pool{2, 2, 1}, {image}, {pooled, pooled}, {{-1, -2, -3, -4, -5, -6, -7, -8, -9}});
  expect_values(padded[0], {-1, -2, -4, -5});  // padding never wins
  expect_values(padded[1], {3, 2, 1, 0});
}

TEST(Operator, ConvolutionInGroups) {
  // Four channels of one pixel in two groups, a filter of two channels for each of four outputs.
  const dims x{1, 4, 1, 1}, w{4, 2, 1, 1};
  convolution how;
  how.groups = 2;
  expect_values(apply(how, {x, w}, {x}, {{1, 2, 3, 4}, {1, 10, 2, 20, 3, 30, 4, 40}})[0], {21, 42, 129, 172});
}

TEST(Operator, ConvolutionOfRectangularFilters) {
  // A row of three, a column apart each, padded left and right alone.
  convolution how{1, 2, 0, 1};
  expect_values(apply(how, {image, {1, 1, 1, 3}}, {{1, 1, 3, 2}}, {counted, {1, 10, 100}})[0],
                {210, 32, 540, 65, 870, 98});
}

TEST(Operator, ReluCapped) {
  const dims row{1, 4, 1, 1};
  expect_values(apply(relu{true}, {row}, {row}, {{-1, 3, 6, 9}})[0], {0, 3, 6, 6});
  // Nothing passes where the output is 0 or 6.
  expect_values(apply(relu_backward{{true}}, {row, row}, {row}, {{0, 3, 6, 6}, {5, 6, 7, 8}})[0],
                {0, 6, 0, 0});
}

// With what a normalisation scales beyond the cap: joined or not, forward and back.
TEST(Operator, NormalisationCappedIsOneWithReluBehindIt) {
  const dims shape{1, 1, 1, 8}, one_vector{1, 1, 1, 1};
  const values x{-3, -1, 0, 0.5, 1, 2, 3, 5}, dy{1, 2, 3, 4, 5, 6, 7, 8}, scale{5}, shift{2},
      residual(8, 0.5);
  for (const bool with_residual : {false, true}) {
    std::vector<dims> in{shape, one_vector, one_vector};
    std::vector<values> given{x, scale, shift};
    if (with_residual) in.push_back(shape), given.push_back(residual);
    const auto plain = apply(batch_norm{}, in, {shape, one_vector, one_vector}, given);
    const auto joined = apply(batch_norm{1e-5F, true, true}, in, {shape, one_vector, one_vector}, given);
    const values y = apply(relu{true}, {shape}, {shape}, {plain[0]})[0];
    expect_values(joined[0], y);
    EXPECT_GE(std::ranges::count(y, 0.0), 2);
    EXPECT_GE(std::ranges::count(y, 6.0), 2);
    in.insert(in.begin() + 3, 2, one_vector);
    given.insert(given.begin() + 3, {plain[1], plain[2]});
    expect_values(apply(normalize{true, true}, in, {shape}, given)[0], y);
    const values masked = apply(relu_backward{{true}}, {shape, shape}, {shape}, {y, dy})[0];
    std::vector<dims> of{shape, one_vector, one_vector, one_vector, one_vector, shape},
        to{shape, one_vector, one_vector};
    std::vector<values> all{x, scale, shift, plain[1], plain[2], masked};
    if (with_residual) to.push_back(shape);
    const auto apart = apply(batch_norm_backward{false, with_residual, false}, of, to, all);
    all[5] = dy;
    if (with_residual) all.push_back(y), of.push_back(shape);
    const auto at_once = apply(batch_norm_backward{true, with_residual, false, true}, of, to, all);
    for (std::size_t i = 0; i < apart.size(); ++i) expect_values(at_once[i], apart[i]);
  }
}

// Figures of PyTorch 2.7's avg_pool2d, ceil_mode where windows overhang.
TEST(Operator, AveragePool) {
  const dims pooled{1, 1, 2, 2};
  expect_values(apply(average_pool{2, 2, 1, 1}, {image}, {pooled}, {counted})[0], {3, 4, 6, 7});
  expect_values(apply(average_pool{2, 2, 2, 2, 1, 1, true}, {image}, {pooled}, {counted})[0],
                {0.25, 1.25, 2.75, 7});
  expect_values(apply(average_pool{2, 2, 2, 2, 1, 1, false}, {image}, {pooled}, {counted})[0],
                {1, 2.5, 5.5, 7});
  // Overhanging: one column and row of the input, none of padding.
  expect_values(apply(average_pool{2, 2, 2, 2, 0, 0, true}, {image}, {pooled}, {counted})[0],
                {3, 4.5, 7.5, 9});
  // Overhanging the padding, too: of 3 x 3 two rows and columns count.
  expect_values(apply(average_pool{3, 3, 3, 3, 1, 1, true}, {image}, {pooled}, {counted})[0],
                {12.0 / 9, 9.0 / 6, 15.0 / 6, 9.0 / 4});
  // Rows and columns apart.
  expect_values(apply(average_pool{3, 1, 1, 2}, {image}, {{1, 1, 1, 2}}, {counted})[0], {4, 6});
}

TEST(Operator, ConcatJoinsChannels) {
  const dims one_channel{2, 1, 1, 2}, two_channels{2, 2, 1, 2}, three{2, 3, 1, 2};
  const values left{1, 2, 3, 4}, right{5, 6, 7, 8, 9, 10, 11, 12},
      both{1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12};
  expect_values(apply(concat{}, {one_channel, two_channels}, {three}, {left, right})[0], both);
}

TEST(Operator, Linear) {
  const dims x{2, 1, 1, 3}, w{2, 3, 1, 1}, b{1, 2, 1, 1}, y{2, 2, 1, 1};
  expect_values(apply(linear{}, {x, w, b}, {y}, {{1, 0, 0, 1, 1, 1}, {1, 2, 3, 4, 5, 6}, {10, 20}})[0],
                {11, 24, 16, 35});
}

TEST(Operator, SoftmaxCrossEntropy) {
  const dims logits{2, 2, 1, 1}, labels{2, 1, 1, 1};
  // Equal logits: log 2. Odds of 3 to 1 against the label: log 4.
  const auto all =
      apply(softmax_cross_entropy{}, {logits, labels}, {one, logits}, {{7, 7, std::log(3.0), 0}, {0, 1}});
  EXPECT_DOUBLE_EQ(all[0][0], (std::log(2.0) + std::log(4.0)) / 2);
  expect_values(all[1], {0.5, 0.5, 0.75, 0.25});
  expect_values(apply(softmax_cross_entropy_backward{}, {logits, labels}, {logits}, {all[1], {0, 1}})[0],
                {-0.25, 0.25, 0.375, -0.375});
}

TEST(Operator, SoftmaxOfLargeLogitsIsFinite) {
  const dims logits{1, 2, 1, 1};
  const auto all = apply(softmax_cross_entropy{}, {logits, one}, {one, logits}, {{1e4, 0}, {1}});
  EXPECT_DOUBLE_EQ(all[0][0], 1e4);
}

}  // namespace
}  // namespace um::reference
