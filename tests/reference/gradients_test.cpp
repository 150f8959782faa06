// The gradients of the backward operators against central differences of the forward ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "networks/builder.hpp"
#include "networks/catalogue.hpp"
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
      g.ops, [](const op& o) { return kind_of(o.what).find("backward") != std::string_view::npos; });
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
    if (g.tensors[of].use != role::parameter) continue;
    const std::string gradient = std::string(name).insert(name.rfind('.') + 1, "d");
    const auto scalar = [&](const state& s) { return s.at(loss)[0]; };
    expect_gradient(all.at(id_of(g, gradient)), differences(forward, given, of, scalar), gradient);
  }
}

// Strides, padding, overlapping pools, the first with a clipped last window; what AlexNet has.
graph alexnet_in_small() {
  builder b("small");
  tensor_id x = b.input("data", {3, 3, 19, 17});
  x = b.relu("relu1", b.convolution("conv1", x, {4, 5, 2, 2}));
  x = b.max_pool("pool1", x, 3, 2, leftover::pooled);
  x = b.relu("relu2", b.convolution("conv2", x, {5, 3, 1, 1}));
  x = b.max_pool("pool2", x, 3, 2, leftover::dropped);
  x = b.relu("relu3", b.linear("fc3", x, 6));
  return b.training(b.linear("fc4", x, 4), false);
}

graph vgg_in_small() {
  builder b("small");
  tensor_id x = b.input("data", {2, 2, 8, 8});
  x = b.relu("relu1", b.convolution("conv1", x, {3, 3, 1, 1}));
  x = b.relu("relu2", b.convolution("conv2", x, {3, 3, 1, 1}));
  x = b.max_pool("pool2", x, 2, 2, leftover::dropped);
  x = b.relu("relu3", b.convolution("conv3", x, {4, 3, 1, 1}));
  x = b.max_pool("pool3", x, 2, 2, leftover::dropped);
  x = b.relu("relu4", b.linear("fc4", x, 7));
  x = b.relu("relu5", b.linear("fc5", x, 6));
  return b.training(b.linear("fc6", x, 5), false);
}

TEST(Gradients, OfAlexNetInSmall) {
  for (const std::uint64_t seed : {1, 2, 3}) expect_gradients_of_loss(alexnet_in_small(), seed);
}

TEST(Gradients, OfVggInSmall) {
  for (const std::uint64_t seed : {1, 2, 3}) expect_gradients_of_loss(vgg_in_small(), seed);
}

struct conv_case {
  std::int64_t batch, c, h, w, k, kernel, stride, pad;
};

// Of the sum of y * dy, whose gradient with respect to y is dy. It is linear in each operand, so
// differences have rounding errors only.
TEST(Gradients, OfOneConvolution) {
  for (const conv_case& c : std::initializer_list<conv_case>{{2, 3, 6, 5, 4, 3, 1, 1},
                                                             {1, 2, 9, 11, 3, 3, 2, 0},
                                                             {2, 2, 7, 7, 2, 2, 3, 1},
                                                             {1, 1, 4, 4, 2, 1, 1, 2},
                                                             {1, 2, 10, 13, 2, 5, 4, 2}}) {
    const graph g = build({"conv",
                           c.batch,
                           pass::train,
                           false,
                           {{"c", c.c},
                            {"h", c.h},
                            {"w", c.w},
                            {"k", c.k},
                            {"kernel", c.kernel},
                            {"stride", c.stride},
                            {"pad", c.pad}}});
    const state given = numbers_for(g, 5);
    const state all = execute(g, given);
    const tensor_id y = id_of(g, "conv.y"), dy = id_of(g, "conv.dy");
    const auto scalar = [&](const state& s) {
      double sum = 0;
      for (std::size_t i = 0; i < s.at(y).size(); ++i) sum += s.at(y)[i] * given.at(dy)[i];
      return sum;
    };
    const graph forward = forward_part(g);
    for (const auto& [of, gradient] : {std::pair{"x", "dx"}, {"conv.w", "conv.dw"}, {"conv.b", "conv.db"}}) {
      expect_gradient(all.at(id_of(g, gradient)), differences(forward, given, id_of(g, of), scalar),
                      gradient);
    }
  }
}

TEST(Gradients, UpdatesGoAgainstThem) {
  const graph g = build({"conv", 2, pass::train, true, {{"c", 2}, {"h", 4}, {"w", 4}, {"k", 2}}});
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
