#include "networks/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include "tests/refusal.hpp"

namespace um {
namespace {

std::int64_t count(const graph& g, role use) {
  return std::ranges::count(g.tensors, use, &tensor::role);
}

std::int64_t count(const graph& g, std::string_view kind) {
  return std::ranges::count_if(g.ops, [&](const op& o) { return kind_of(o.attributes) == kind; });
}

const op& op_named(const graph& g, const std::string& name) {
  const auto found = std::ranges::find(g.ops, name, &op::name);
  if (found == g.ops.end()) throw std::out_of_range("no operator " + name);
  return *found;
}

bool has_op(const graph& g, const std::string& name) {
  return std::ranges::find(g.ops, name, &op::name) != g.ops.end();
}

network_spec trained(const std::string& name, std::int64_t batch = 2, fusion joined = fusion::fused) {
  return {.name = name, .batch = batch, .fusion_mode = joined};
}

network_spec inferred(const std::string& name, std::int64_t batch = 2, fusion joined = fusion::fused) {
  return {.name = name, .batch = batch, .mode = pass::inference, .fusion_mode = joined};
}

network_spec updated(network_spec spec) {
  spec.appends_sgd = true;
  return spec;
}

network_spec with_optimizer(network_spec spec, bool masters) {
  spec.optimizer = optimizer_kind::adamw;
  spec.keeps_masters = masters;
  return spec;
}

constexpr std::array every_fusion{fusion::none, fusion::fused, fusion::lean};
constexpr std::array every_precision{precision::fp32, precision::tf32, precision::bf16};

// Inference, training and training with updates, in every fusion, precision and memory order.
std::vector<network_spec> every_form_of(const std::string& name) {
  std::vector<network_spec> all;
  for (const fusion joined : every_fusion) {
    for (const precision arithmetic : every_precision) {
      for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
        for (network_spec spec :
             {inferred(name, 2, joined), trained(name, 2, joined), updated(trained(name, 2, joined))}) {
          spec.arithmetic = arithmetic;
          spec.order = order;
          all.push_back(spec);
        }
      }
    }
  }
  return all;
}

std::string described(const network_spec& spec) {
  return std::string(to_text(spec.fusion_mode)) + " " + std::string(to_text(spec.arithmetic)) + " " +
         std::string(to_text(*spec.order)) + (spec.mode == pass::train ? " train" : " inference") +
         (spec.appends_sgd ? " sgd" : "");
}

class EveryNetwork : public testing::TestWithParam<std::string> {};

void expect_distinct_names(const graph& g) {
  std::set<std::string> tensors, ops;
  for (const tensor& t : g.tensors) EXPECT_TRUE(tensors.insert(t.name).second) << t.name;
  for (const op& o : g.ops) EXPECT_TRUE(ops.insert(o.name).second) << o.name;
}

// Gradients are read: else the first layer's data gradient, which nobody needs, would be the largest of all.
void expect_all_tensors_used(const graph& g) {
  std::vector<bool> used(g.tensors.size()), read(g.tensors.size());
  for (const op& o : g.ops) {
    for (const tensor_id id : o.in) used[id] = read[id] = true;
    for (const tensor_id id : o.out) used[id] = true;
  }
  for (std::size_t id = 0; id < used.size(); ++id) {
    EXPECT_TRUE(g.tensors[id].role == role::activation_gradient ? read[id] : used[id]) << g.tensors[id].name;
  }
}

TEST_P(EveryNetwork, IsWellFormedInEveryForm) {
  std::int64_t batch = 1;
  for (network_spec spec : every_form_of(GetParam())) {
    SCOPED_TRACE(described(spec));
    spec.batch = batch = 65 - batch;
    const graph g = build_network(spec);
    EXPECT_EQ(defect_of(g), std::nullopt);
    EXPECT_EQ(g.name, GetParam());
    EXPECT_EQ(g.arithmetic, spec.arithmetic);
    expect_distinct_names(g);
    expect_all_tensors_used(g);
  }
}

TEST_P(EveryNetwork, EveryParameterHasAGradientAndAnUpdate) {
  for (const fusion joined : every_fusion) {
    const graph g = build_network(updated(trained(GetParam(), 2, joined)));
    EXPECT_EQ(count(g, role::parameter_gradient), count(g, role::parameter));
    EXPECT_EQ(bytes_of(g, role::parameter_gradient), bytes_of(g, role::parameter));
    EXPECT_EQ(count(g, "sgd_update"), count(g, role::parameter));
    EXPECT_EQ(count(build_network(trained(GetParam(), 2, joined)), "sgd_update"), 0);
    EXPECT_EQ(count(build_network(inferred(GetParam(), 2, joined)), role::parameter_gradient), 0);
  }
}

TEST_P(EveryNetwork, HasTheStatesOfEveryOptimizer) {
  for (const optimizer_kind how : all_values<optimizer_kind>()) {
    for (const bool masters : {false, true}) {
      network_spec spec = trained(GetParam(), 2, fusion::lean);
      const graph without = build_network(spec);
      spec.optimizer = how;
      if (masters) spec.arithmetic = precision::bf16;
      spec.keeps_masters = masters;
      const graph g = build_network(spec);
      const auto moments = static_cast<byte_count>(how);
      const byte_count trained = bytes_of(g, role::parameter_gradient);
      const byte_count counter = how == optimizer_kind::adamw ? 4 : 0;
      const byte_count narrow = 2 * (trained - bytes_of(g, role::parameter));  // of their masters
      EXPECT_EQ(bytes_of(g, role::state), moments * trained + counter + narrow);
      EXPECT_EQ(narrow > 0, masters);
      EXPECT_EQ(trained, bytes_of(without, role::parameter_gradient));
      EXPECT_EQ(count(g, "optimizer_step"), 1);
      EXPECT_TRUE(!masters || count(g, "cast") == 0);
    }
  }
}

// The same parameters and gradients under the same names, however operators are joined: what makes
// their values comparable.
TEST_P(EveryNetwork, JoiningKeepsWhatSurvives) {
  const auto surviving = [](const graph& g) {
    std::map<std::string, std::pair<dims, role>> all;
    for (const tensor& t : g.tensors) {
      if (survives(t.role)) all[t.name] = {t.shape, t.role};
    }
    return all;
  };
  const auto plain = surviving(build_network(trained(GetParam(), 2, fusion::none)));
  EXPECT_EQ(surviving(build_network(trained(GetParam(), 2, fusion::fused))), plain);
  EXPECT_EQ(surviving(build_network(trained(GetParam(), 2, fusion::lean))), plain);
}

TEST_P(EveryNetwork, LiesInTheOrderAskedForOrTheStandardOne) {
  for (const precision arithmetic : every_precision) {
    network_spec spec = trained(GetParam());
    spec.arithmetic = arithmetic;
    for (const tensor& t : build_network(spec).tensors)
      EXPECT_EQ(t.order, standard_order(arithmetic)) << t.name;
    spec.order = memory_order::nhwc;
    for (const tensor& t : build_network(spec).tensors) EXPECT_EQ(t.order, memory_order::nhwc) << t.name;
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const network_family& family : network_families()) names.push_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryNetwork, testing::ValuesIn(all_names()),
                         [](const auto& which) { return which.param; });

TEST(Catalogue, HasTheseFamilies) {
  EXPECT_EQ(all_names(), (std::vector<std::string>{"alexnet",        "vgg11",           "vgg13",
                                                   "vgg16",          "vgg19",           "resnet18",
                                                   "resnet34",       "resnet50",        "resnet101",
                                                   "resnet152",      "googlenet",       "densenet121",
                                                   "mobilenet_v2",   "vgg11_cifar",     "vgg13_cifar",
                                                   "vgg16_cifar",    "vgg19_cifar",     "resnet18_cifar",
                                                   "resnet34_cifar", "resnet50_cifar",  "resnet101_cifar",
                                                   "resnet20_cifar", "resnet32_cifar",  "resnet44_cifar",
                                                   "resnet56_cifar", "resnet110_cifar", "conv"}));
  for (const network_family& family : network_families()) {
    EXPECT_FALSE(family.summary.empty());
    for (const network_knob& knob : family.knobs) {
      EXPECT_LE(knob.min_value, knob.default_value) << family.name << " " << knob.name;
      EXPECT_LE(knob.default_value, knob.max_value) << family.name << " " << knob.name;
      EXPECT_FALSE(knob.summary.empty());
    }
  }
}

TEST(Training, EndsInALossInsteadOfLogits) {
  const auto use_of = [](const graph& g, const std::string& name) {
    return std::ranges::find(g.tensors, name, &tensor::name)->role;
  };
  const graph inference = build_network(inferred("alexnet"));
  EXPECT_EQ(use_of(inference, "fc8.y"), role::output);
  EXPECT_EQ(count(inference, role::label), 0);
  for (const fusion joined : every_fusion) {
    const graph train = build_network(trained("alexnet", 2, joined));
    EXPECT_EQ(use_of(train, "fc8.y"), role::activation);
    EXPECT_EQ(use_of(train, "loss"), role::output);
    EXPECT_EQ(use_of(train, "labels"), role::label);
    EXPECT_EQ(count(train, role::output), 1);
  }
}

std::vector<std::string> last_names(const graph& g, std::size_t how_many) {
  std::vector<std::string> names;
  for (const op& o : g.ops) names.push_back(o.name);
  return {names.end() - static_cast<std::ptrdiff_t>(how_many), names.end()};
}

TEST(Training, GoesBackLayerByLayerWithTheDataGradientLast) {
  const graph apart = build_network(trained("alexnet", 2, fusion::none));
  EXPECT_EQ(last_names(apart, 8),
            (std::vector<std::string>{"relu2.backward", "conv2.backward_filter", "conv2.backward_bias",
                                      "conv2.backward_data", "pool1.backward", "relu1.backward",
                                      "conv1.backward_filter", "conv1.backward_bias"}));
  const graph joined = build_network(trained("alexnet", 2));
  EXPECT_EQ(last_names(joined, 8),
            (std::vector<std::string>{"conv3.backward_relu", "conv3.backward_filter", "conv3.backward_data",
                                      "pool2.backward", "conv2.backward_filter", "conv2.backward_data",
                                      "pool1.backward", "conv1.backward_filter"}));
  EXPECT_FALSE(has_op(joined, "conv1.backward_data"));
}

TEST(Training, ReluWorksInPlaceBothWays) {
  const graph g = build_network(trained("alexnet", 2, fusion::none));
  EXPECT_EQ(op_named(g, "relu3").alias, (may_alias{0, 0}));
  const op& backward = op_named(g, "relu3.backward");
  EXPECT_EQ(backward.alias, (may_alias{1, 0}));
  EXPECT_EQ(g.tensors[backward.in[0]].name, "relu3.y");
  EXPECT_EQ(g.tensors[backward.in[1]].name, "relu3.dy");
  EXPECT_EQ(g.tensors[backward.out[0]].name, "conv3.dy");
}

TEST(Training, UpdatesComeLastAndInOrder) {
  const graph g = build_network(updated(trained("conv")));
  EXPECT_EQ(g.ops.back().name, "conv.b.update");
  EXPECT_EQ(g.ops[g.ops.size() - 2].name, "conv.w.update");
  EXPECT_FALSE(g.ops.back().is_repeatable);
}

TEST(Conv, TrainsFromAGivenGradient) {
  for (const fusion joined : every_fusion) {
    const graph g = build_network(trained("conv", 2, joined));
    EXPECT_EQ(count(g, role::input), 2);
    EXPECT_EQ(count(g, role::output), 2);
    EXPECT_EQ(g.tensors[op_named(g, "conv.backward_data").out[0]].name, "dx");
    EXPECT_EQ(g.tensors[op_named(g, "conv.backward_filter").in[1]].name, "conv.dy");
    EXPECT_TRUE(has_op(g, "conv.backward_bias"));
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
  expect_words(refusal<std::invalid_argument>([] { build_network(GetParam().spec); }), {GetParam().part});
}

network_spec with(const std::string& name, std::map<std::string, std::int64_t> knobs,
                  std::int64_t batch = 1) {
  return {.name = name, .batch = batch, .knobs = std::move(knobs)};
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
        bad_input{with("resnet50", {{"insize", 0}}), "insize 0 is outside 1 to"},
        bad_input{with("vgg16_cifar", {{"insize", 48}}), "insize 48 is not a multiple of 32"},
        bad_input{updated(inferred("vgg16")), "sgd needs the train pass"},
        bad_input{with_optimizer(inferred("vgg16"), false), "an optimizer needs the train pass"},
        bad_input{with_optimizer(updated(trained("vgg16", 2, fusion::fused)), false), "keep one"},
        bad_input{with_optimizer(trained("vgg16", 2, fusion::fused), true),
                  "masters need an optimizer and precision bf16"}));

}  // namespace
}  // namespace um
