#include "networks/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "networks/builder.hpp"

namespace um {
namespace {

std::int64_t count(const graph& g, role use) {
  return std::ranges::count(g.tensors, use, &tensor::use);
}

std::int64_t count(const graph& g, std::string_view kind) {
  return std::ranges::count_if(g.ops, [&](const op& o) { return kind_of(o.what) == kind; });
}

const op& op_named(const graph& g, const std::string& name) {
  const auto found = std::ranges::find(g.ops, name, &op::name);
  if (found == g.ops.end()) throw std::out_of_range("no operator " + name);
  return *found;
}

bool has_op(const graph& g, const std::string& name) {
  return std::ranges::find(g.ops, name, &op::name) != g.ops.end();
}

class EveryNetwork : public testing::TestWithParam<std::string> {};

TEST_P(EveryNetwork, IsWellFormedInEveryForm) {
  for (const auto& [mode, sgd] :
       {std::pair{pass::inference, false}, {pass::train, false}, {pass::train, true}}) {
    for (const std::int64_t batch : {1, 2, 64}) {
      const graph g = build({GetParam(), batch, mode, sgd, {}});
      EXPECT_EQ(defect_of(g), std::nullopt);
      EXPECT_EQ(g.name, GetParam());
    }
  }
}

TEST_P(EveryNetwork, HasDistinctNames) {
  const graph g = build({GetParam(), 2, pass::train, true, {}});
  std::set<std::string> tensors, ops;
  for (const tensor& t : g.tensors) EXPECT_TRUE(tensors.insert(t.name).second) << t.name;
  for (const op& o : g.ops) EXPECT_TRUE(ops.insert(o.name).second) << o.name;
}

TEST_P(EveryNetwork, EveryTensorIsUsed) {
  for (const pass mode : {pass::inference, pass::train}) {
    const graph g = build({GetParam(), 2, mode, false, {}});
    std::vector<bool> used(g.tensors.size());
    for (const op& o : g.ops) {
      for (const tensor_id id : o.in) used[id] = true;
      for (const tensor_id id : o.out) used[id] = true;
    }
    for (std::size_t id = 0; id < used.size(); ++id) EXPECT_TRUE(used[id]) << g.tensors[id].name;
  }
}

TEST_P(EveryNetwork, EveryParameterHasAGradientAndAnUpdate) {
  const graph inference = build({GetParam(), 2, pass::inference, false, {}});
  EXPECT_EQ(count(inference, role::parameter_gradient), 0);
  const graph g = build({GetParam(), 2, pass::train, true, {}});
  EXPECT_EQ(count(g, role::parameter), count(inference, role::parameter));
  EXPECT_EQ(count(g, role::parameter_gradient), count(g, role::parameter));
  EXPECT_EQ(bytes_of(g, role::parameter_gradient), bytes_of(g, role::parameter));
  EXPECT_EQ(count(g, "sgd_update"), count(g, role::parameter));
  EXPECT_EQ(count(build({GetParam(), 2, pass::train, false, {}}), "sgd_update"), 0);
}

// Otherwise the first layer's data gradient, which nobody reads, would be the largest of all.
TEST_P(EveryNetwork, ComputesNoGradientThatNobodyReads) {
  const graph g = build({GetParam(), 2, pass::train, false, {}});
  std::set<tensor_id> read;
  for (const op& o : g.ops) read.insert(o.in.begin(), o.in.end());
  for (tensor_id id = 0; id < g.tensors.size(); ++id) {
    if (g.tensors[id].use == role::activation_gradient) {
      EXPECT_TRUE(read.contains(id)) << g.tensors[id].name;
    }
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const network_family& family : networks()) names.push_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryNetwork, testing::ValuesIn(all_names()),
                         [](const auto& which) { return which.param; });

TEST(Catalogue, HasTheseFamilies) {
  EXPECT_EQ(all_names(), (std::vector<std::string>{"alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "conv"}));
  for (const network_family& family : networks()) {
    EXPECT_FALSE(family.summary.empty());
    for (const network_knob& knob : family.knobs) {
      EXPECT_LE(knob.least, knob.standard) << family.name << " " << knob.name;
      EXPECT_LE(knob.standard, knob.most) << family.name << " " << knob.name;
      EXPECT_FALSE(knob.summary.empty());
    }
  }
}

TEST(Training, EndsInALossInsteadOfLogits) {
  const graph inference = build({"alexnet", 2, pass::inference, false, {}});
  const graph train = build({"alexnet", 2, pass::train, false, {}});
  const auto use_of = [](const graph& g, const std::string& name) {
    return std::ranges::find(g.tensors, name, &tensor::name)->use;
  };
  EXPECT_EQ(use_of(inference, "fc8.y"), role::output);
  EXPECT_EQ(count(inference, role::label), 0);
  EXPECT_EQ(use_of(train, "fc8.y"), role::activation);
  EXPECT_EQ(use_of(train, "loss"), role::output);
  EXPECT_EQ(use_of(train, "probabilities"), role::activation);
  EXPECT_EQ(use_of(train, "labels"), role::label);
  EXPECT_EQ(count(train, role::output), 1);
}

TEST(Training, GoesBackLayerByLayerWithTheDataGradientLast) {
  const graph g = build({"alexnet", 2, pass::train, false, {}});
  std::vector<std::string> names;
  for (const op& o : g.ops) names.push_back(o.name);
  const std::vector<std::string> wanted{
      "relu2.backward", "conv2.backward_filter", "conv2.backward_bias",   "conv2.backward_data",
      "pool1.backward", "relu1.backward",        "conv1.backward_filter", "conv1.backward_bias"};
  const std::vector<std::string> last(names.end() - static_cast<std::ptrdiff_t>(wanted.size()), names.end());
  EXPECT_EQ(last, wanted);
  EXPECT_FALSE(has_op(g, "conv1.backward_data"));
}

TEST(Training, ReluWorksInPlaceBothWays) {
  const graph g = build({"alexnet", 2, pass::train, false, {}});
  EXPECT_EQ(op_named(g, "relu3").alias, (may_alias{0, 0}));
  const op& backward = op_named(g, "relu3.backward");
  EXPECT_EQ(backward.alias, (may_alias{1, 0}));
  EXPECT_EQ(g.tensors[backward.in[0]].name, "relu3.y");
  EXPECT_EQ(g.tensors[backward.in[1]].name, "relu3.dy");
  EXPECT_EQ(g.tensors[backward.out[0]].name, "conv3.dy");
}

TEST(Training, UpdatesComeLastAndInOrder) {
  const graph g = build({"conv", 2, pass::train, true, {}});
  EXPECT_EQ(g.ops.back().name, "conv.b.update");
  EXPECT_EQ(g.ops[g.ops.size() - 2].name, "conv.w.update");
  EXPECT_FALSE(g.ops.back().repeatable);
}

TEST(Conv, TrainsFromAGivenGradient) {
  const graph g = build({"conv", 2, pass::train, false, {}});
  EXPECT_EQ(count(g, role::input), 2);
  EXPECT_EQ(count(g, role::output), 2);
  EXPECT_EQ(g.tensors[op_named(g, "conv.backward_data").out[0]].name, "dx");
  EXPECT_EQ(g.tensors[op_named(g, "conv.backward_filter").in[1]].name, "conv.dy");
  EXPECT_TRUE(has_op(g, "conv.backward_bias"));
}

TEST(Builder, PoolsRoundAsAsked) {
  builder b("pools");
  const tensor_id x = b.input("x", {1, 1, 8, 9});
  b.max_pool("dropped", x, 3, 2, leftover::dropped);
  const graph g = b.inference(b.max_pool("pooled", x, 3, 2, leftover::pooled));
  EXPECT_EQ(g.tensors[op_named(g, "dropped").out[0]].shape, (dims{1, 1, 3, 4}));
  EXPECT_EQ(g.tensors[op_named(g, "pooled").out[0]].shape, (dims{1, 1, 4, 4}));
  EXPECT_EQ(defect_of(g), std::nullopt);
}

TEST(Builder, RefusesToAddGradientsUp) {
  builder b("joined");
  const tensor_id x = b.linear("fc", b.input("x", {4, 3, 1, 1}), 4);
  const tensor_id left = b.relu("left", x);
  const tensor_id right = b.relu("right", x);
  graph g = b.inference(right);
  const tensor_id y = append_tensor(g, {"y", {4, 4, 1, 1}, dtype::f32, role::output});
  g.ops.push_back({"product", linear{}, {left, right}, {y}, true, std::nullopt});
  const tensor_id dy = append_tensor(g, {"dy", {4, 4, 1, 1}, dtype::f32, role::input});
  ASSERT_EQ(defect_of(g), std::nullopt);
  try {
    append_backward(g, y, dy, {});
    FAIL() << "two gradients of fc.y were not noticed";
  } catch (const std::invalid_argument& reason) {
    EXPECT_EQ(std::string(reason.what()), "tensor fc.y is read twice: gradients are not added up");
  }
}

// --- bad input ---

struct bad_input {
  network_spec spec;
  std::string part;  // of the message
};

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

class BadInput : public testing::TestWithParam<bad_input> {};

TEST_P(BadInput, IsRefusedInOneLine) {
  try {
    build(GetParam().spec);
    FAIL() << "built, though '" << GetParam().part << "' was to be refused";
  } catch (const std::invalid_argument& reason) {
    const std::string what = reason.what();
    EXPECT_NE(what.find(GetParam().part), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

network_spec with(const std::string& name, std::map<std::string, std::int64_t> knobs,
                  std::int64_t batch = 1) {
  return {name, batch, pass::train, false, std::move(knobs)};
}

INSTANTIATE_TEST_SUITE_P(
    Build, BadInput,
    testing::Values(
        bad_input{with("resnet9000", {}), "unknown network 'resnet9000'; there are alexnet, vgg11"},
        bad_input{with("", {}), "unknown network ''"},
        bad_input{with("vgg16", {{"outsize", 1}}), "network vgg16 has no knob 'outsize'; it has insize"},
        bad_input{with("alexnet", {}, 0), "network alexnet: batch 0 is below 1"},
        bad_input{with("alexnet", {}, -1), "batch -1 is below 1"},
        bad_input{with("alexnet", {}, most),
                  "network alexnet: tensor data of shape 9223372036854775807x3x224x224"},
        bad_input{with("vgg16", {}, 1LL << 40), "does not fit in 2^63 bytes"},
        bad_input{with("vgg16", {}, 1LL << 37), "together do not fit in 2^63 bytes"},
        bad_input{with("alexnet", {{"insize", 225}}), "insize 225 is not a multiple of 224"},
        bad_input{with("alexnet", {{"insize", 0}}), "insize 0 is outside 224 to 19040"},
        bad_input{with("alexnet", {{"insize", -224}}), "insize -224 is outside"},
        bad_input{with("alexnet", {{"insize", 19264}}), "insize 19264 is outside"},
        bad_input{with("alexnet", {{"insize", most}}), "insize 9223372036854775807 is outside"},
        bad_input{with("vgg16", {{"insize", 100}}), "network vgg16: insize 100 is not a multiple of 32"},
        bad_input{with("conv", {{"c", 0}}), "c 0 is outside"},
        bad_input{with("conv", {{"stride", 0}}), "stride 0 is outside"},
        bad_input{with("conv", {{"pad", -1}}), "pad -1 is outside"},
        bad_input{with("conv", {{"h", 2}, {"pad", 0}}),
                  "network conv: layer conv: a window of 3 is larger than its input of 2"},
        bad_input{with("conv", {{"c", 2147483647}, {"k", 2147483647}}), "does not fit in 2^63 bytes"},
        bad_input{with("conv", {{"h", 2147483647}, {"w", 2147483647}}), "does not fit in 2^63 bytes"},
        bad_input{
            with("conv", {{"c", 1LL << 29}, {"k", 1LL << 29}, {"kernel", 1}, {"pad", 0}, {"h", 1}, {"w", 1}},
                 64),
            "more than 2^64 operations"},
        bad_input{{"vgg16", 1, pass::inference, true, {}}, "sgd needs the train pass"}));

}  // namespace
}  // namespace um
