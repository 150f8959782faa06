// The gradients of the backward operators against central differences of the forward ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "networks/builder.hpp"
#include "networks/catalogue.hpp"
#include "networks/passes.hpp"
#include "tests/reference/reference.hpp"

namespace um::reference {
namespace {

using state = std::map<tensor_id, values>;

tensor_id id_of(const graph& g, const std::string& name) {
  const auto found = std::ranges::find(g.tensors, name, &tensor::name);
  if (found == g.tensors.end()) throw std::out_of_range("no tensor " + name);
  return static_cast<tensor_id>(found - g.tensors.begin());
}

// The operators up to the first one that computes a gradient.
graph forward_part(graph g) {
  const auto first = std::ranges::find_if(
      g.ops, [](const op& o) { return kind_of(o.attributes).find("backward") != std::string_view::npos; });
  g.ops.erase(first, g.ops.end());
  return g;
}

// The step of the differences. Their error is about step^2 times the third derivative plus 1e-16 /
// step of rounding: 1e-10 each for values around 1.
constexpr double step = 1e-5;

values differences(const graph& forward, const state& given, tensor_id of,
                   const std::function<double(const state&)>& scalar) {
  state moved = given;
  values result(given.at(of).size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto at = [&](double value) {
      moved[of][i] = value;
      return scalar(execute(forward, moved));
    };
    const double value = given.at(of)[i];
    result[i] = (at(value + step) - at(value - step)) / (2 * step);
    moved[of][i] = value;
  }
  return result;
}

// Largest difference of two gradients, relative to the largest element.
double relative_error(const values& got, const values& wanted) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::abs(got[i] - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return error / largest;
}

// 2.2e-10 is reached.
constexpr double bound = 1e-8;

void expect_gradient(const values& got, const values& wanted, const std::string& name) {
  ASSERT_EQ(got.size(), wanted.size()) << name;
  EXPECT_GT(std::ranges::max(wanted) - std::ranges::min(wanted), 0) << name << " tests nothing";
  EXPECT_LT(relative_error(got, wanted), bound) << name;
}

void expect_gradients_of_loss(const graph& g, std::uint64_t seed) {
  ASSERT_EQ(defect_of(g), std::nullopt);
  const state given = numbers_for(g, seed);
  const state all = execute(g, given);
  const graph forward = forward_part(g);
  const tensor_id loss = id_of(g, "loss");
  for (const auto& [of, numbers] : given) {
    const std::string name = g.tensors[of].name;
    if (g.tensors[of].role != role::parameter) continue;
    const std::string gradient = std::string(name).insert(name.rfind('.') + 1, "d");
    const auto scalar = [&](const state& s) { return s.at(loss)[0]; };
    expect_gradient(all.at(id_of(g, gradient)), differences(forward, given, of, scalar), gradient);
  }
}

// Strides, padding, overlapping pools, the first with a clipped last window; what AlexNet has.
graph alexnet_in_small(fusion joined) {
  builder b("small", pass::train);
  tensor_id x = b.input("data", {3, 3, 19, 17});
  x = b.relu("relu1", b.convolution("conv1", x, {4, 5, 2, 2}));
  x = b.max_pool("pool1", x, 3, 2, partial_windows::pooled);
  x = b.relu("relu2", b.convolution("conv2", x, {5, 3, 1, 1}));
  x = b.max_pool("pool2", x, 3, 2, partial_windows::dropped);
  x = b.relu("relu3", b.linear("fc3", x, 6));
  return b.training(b.linear("fc4", x, 4), joined, false);
}

graph vgg_in_small(fusion joined) {
  builder b("small", pass::train);
  tensor_id x = b.input("data", {2, 2, 8, 8});
  x = b.relu("relu1", b.convolution("conv1", x, {3, 3, 1, 1}));
  x = b.relu("relu2", b.convolution("conv2", x, {3, 3, 1, 1}));
  x = b.max_pool("pool2", x, 2, 2, partial_windows::dropped);
  x = b.relu("relu3", b.convolution("conv3", x, {4, 3, 1, 1}));
  x = b.max_pool("pool3", x, 2, 2, partial_windows::dropped);
  x = b.relu("relu4", b.linear("fc4", x, 7));
  x = b.relu("relu5", b.linear("fc5", x, 6));
  return b.training(b.linear("fc6", x, 5), joined, false);
}

tensor_id normalized(builder& b, const std::string& number, tensor_id x, const filters& f) {
  return b.batch_norm("bn" + number, b.convolution("conv" + number, x, f));
}

// A padded pool, a block with a projection, one whose input is added as it is, and the mean over what
// is left; everything that a ResNet has.
graph resnet_in_small(fusion joined) {
  builder b("small", pass::train);
  tensor_id x = b.input("data", {3, 2, 11, 9});
  x = b.relu("relu1", normalized(b, "1", x, {3, 3, 1, 1, false}));
  x = b.max_pool("pool1", x, 3, 2, partial_windows::dropped, 1);
  tensor_id y = b.relu("relu2", normalized(b, "2", x, {2, 3, 2, 1, false}));
  y = b.convolution("conv3", y, {4, 1, 1, 0, false});
  const tensor_id beside = normalized(b, "4", x, {4, 1, 2, 0, false});
  x = b.relu("relu3", b.add("add3", b.batch_norm("bn3", y), beside));
  y = b.relu("relu5", normalized(b, "5", x, {4, 3, 1, 1, false}));
  x = b.relu("relu6", b.add("add6", normalized(b, "6", y, {4, 3, 1, 1, false}), x));
  y = b.relu("relu7", normalized(b, "7", x, {4, 1, 1, 0, false}));
  x = b.add("add7", normalized(b, "8", y, {4, 1, 1, 0, false}), x);
  return b.training(b.linear("fc", b.global_average_pool("average", x), 5), joined, false);
}

// A tensor that three operators read, one that a sum reads twice over, and a matrix product whose
// input still has extents.
graph branches(fusion joined) {
  builder b("small", pass::train);
  tensor_id x = b.convolution("conv1", b.input("data", {2, 2, 4, 3}), {3, 3, 1, 1});
  const tensor_id left = b.relu("relu2", b.convolution("conv2", x, {3, 3, 1, 1}));
  const tensor_id right = b.batch_norm("bn3", x);
  x = b.add("add5", b.add("add4", left, right), x);
  return b.training(b.linear("fc", b.add("add6", x, x), 4), joined, false);
}

// A depthwise convolution, some in groups and some of rectangular filters, a sum without a ReLU behind it:
// what MobileNetV2 has.
graph mobilenet_in_small(fusion joined) {
  builder b("small", pass::train);
  tensor_id x = b.input("data", {3, 2, 7, 6});
  x = b.relu("relu1", normalized(b, "1", x, {4, {3, 1}, {2, 1}, {1, 0}, false}), true);
  tensor_id y = b.relu("relu2", normalized(b, "2", x, {4, 3, 1, 1, false, 4}), true);
  y = normalized(b, "3", y, {4, {1, 3}, 1, {0, 1}, false, 2});
  x = b.add("add3", y, x);
  x = b.relu("relu4", b.convolution("conv4", x, {6, 3, 2, 1, true, 2}), true);
  x = b.relu("relu5", b.convolution("conv5", x, {6, 1, 1, 0, true, 3}));
  return b.training(b.linear("fc", x, 5), joined, false);
}

// Layers that read all before them, joined, and what halves an image: what a DenseNet has.
graph densenet_in_small(fusion joined) {
  builder b("small", pass::train);
  tensor_id x = b.convolution("conv0", b.input("data", {2, 2, 5, 7}), {3, 3, 1, 1, false});
  std::vector<tensor_id> features{x};
  for (const std::string number : {"1", "2", "3"}) {
    if (features.size() > 1) x = b.concat("concat" + number, features);
    x = b.relu("relu" + number, b.batch_norm("bn" + number, x));
    features.push_back(b.convolution("conv" + number, x, {2, 3, 1, 1, false}));
  }
  x = b.average_pool("pool", b.concat("concat", features), 2, 2, partial_windows::dropped);
  return b.training(b.linear("fc", x, 4), joined, false);
}

// Branches of one tensor that are joined again, pools that keep the extents, padding that counts and not.
graph inception_in_small(fusion joined) {
  builder b("small", pass::train);
  tensor_id x = b.input("data", {2, 2, 5, 6});
  const tensor_id stem = b.relu("relu1", normalized(b, "1", x, {3, 3, 1, 1, false}));
  const tensor_id first = b.relu("relu2", b.convolution("conv2", stem, {2, 1, 1, 0}));
  const tensor_id second = b.max_pool("pool3", stem, 3, 1, partial_windows::pooled, 1);
  const tensor_id third = b.average_pool("pool4", stem, {3, 1}, 1, partial_windows::dropped, {1, 0}, true);
  const tensor_id fourth = b.average_pool("pool5", stem, 3, 1, partial_windows::dropped, 1);
  x = b.concat("concat", {first, second, third, fourth, first});
  x = b.average_pool("pool6", x, 3, 2, partial_windows::pooled, 1, true);
  return b.training(b.linear("fc", x, 4), joined, false);
}

struct small_case {
  std::string name;
  graph (*build)(fusion);
};

class SmallNetwork : public testing::TestWithParam<small_case> {};

graph leaned(graph (*build)(fusion)) {
  return recompute_cheap(build(fusion::lean), std::numeric_limits<double>::infinity());
}

TEST_P(SmallNetwork, HasTheGradientsOfItsLoss) {
  for (const fusion joined : {fusion::none, fusion::fused}) {
    SCOPED_TRACE(to_text(joined));
    expect_gradients_of_loss(GetParam().build(joined), joined == fusion::none ? 1 : 2);
  }
}

// Whatever an iteration leaves behind, by name.
std::map<std::string, values> results_of(const graph& g, std::uint64_t seed) {
  EXPECT_EQ(defect_of(g), std::nullopt);
  std::map<std::string, values> all;
  for (auto& [id, numbers] : execute(g, numbers_for(g, seed))) {
    const role use = g.tensors[id].role;
    if (survives(use) && !persists(use)) all[g.tensors[id].name] = numbers;
  }
  return all;
}

void expect_equal_results(const graph& g, const std::map<std::string, values>& wanted, std::uint64_t seed) {
  const auto got = results_of(g, seed);
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, numbers] : wanted) {
    EXPECT_LT(relative_error(got.at(name), numbers), 1e-12) << name;
  }
}

TEST_P(SmallNetwork, GivesTheSameHoweverItsOperatorsAreJoined) {
  for (const std::uint64_t seed : {4, 5}) {
    const auto plain = results_of(GetParam().build(fusion::none), seed);
    expect_equal_results(GetParam().build(fusion::fused), plain, seed);
    expect_equal_results(leaned(GetParam().build), plain, seed);
  }
}

TEST(SmallNetworks, LeanOnesComputeSomethingAgain) {
  for (graph (*of)(fusion) : {vgg_in_small, resnet_in_small, densenet_in_small, mobilenet_in_small}) {
    EXPECT_GT(leaned(of).ops.size(), of(fusion::fused).ops.size());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gradients, SmallNetwork,
    testing::Values(small_case{"alexnet", alexnet_in_small}, small_case{"vgg", vgg_in_small},
                    small_case{"resnet", resnet_in_small}, small_case{"branches", branches},
                    small_case{"mobilenet", mobilenet_in_small}, small_case{"densenet", densenet_in_small},
                    small_case{"inception", inception_in_small}),
    [](const auto& which) { return which.param.name; });

graph conv_of(std::int64_t batch, std::map<std::string, std::int64_t> knobs, bool sgd = false) {
  return build_network({.name = "conv", .batch = batch, .appends_sgd = sgd, .knobs = std::move(knobs)});
}

TEST(Gradients, UpdatesGoAgainstThem) {
  const graph g = conv_of(2, {{"c", 2}, {"h", 4}, {"w", 4}, {"k", 2}}, true);
  const state given = numbers_for(g, 6);
  const state all = execute(g, given);
  for (const auto& [of, gradient] : {std::pair{"conv.w", "conv.dw"}, {"conv.b", "conv.db"}}) {
    const values& before = given.at(id_of(g, of));
    const values& after = all.at(id_of(g, of));
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_DOUBLE_EQ(after[i], before[i] - double{0.01F} * all.at(id_of(g, gradient))[i]);
    }
  }
}

}  // namespace
}  // namespace um::reference
