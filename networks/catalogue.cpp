#include "networks/catalogue.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "core/access.hpp"
#include "networks/families.hpp"
#include "networks/optimizer.hpp"
#include "networks/recompute.hpp"
#include "networks/storage.hpp"

namespace um {
namespace {

constexpr std::int64_t int32_most = std::numeric_limits<std::int32_t>::max();
// Beyond this, a position in the last pool's window no longer fits in 16 bits.
constexpr std::int64_t alexnet_most = 85 * 224;
constexpr std::int64_t insize_most = 1 << 20;

const std::vector<network_family>& table() {
  const network_knob vgg_insize{"insize", "height and width of an image, a multiple of 32", 224, 32,
                                insize_most};
  const network_knob resnet_insize{"insize", "height and width of an image", 224, 1, insize_most};
  const network_knob cifar_insize{"insize", "height and width of an image", 32, 1, insize_most};
  const network_knob vgg_cifar_insize{"insize", "height and width of an image, a multiple of 32", 32, 32,
                                      insize_most};
  static const std::vector<network_family> families{
      {"alexnet",
       "AlexNet in one column, 5 convolutions and 3 fully connected layers",
       build_alexnet,
       {{"insize", "height and width of an image, a multiple of 224", 224, 224, alexnet_most}}},
      {"vgg11", "VGG configuration A, 8 convolutions", build_vgg11, {vgg_insize}},
      {"vgg13", "VGG configuration B, 10 convolutions", build_vgg13, {vgg_insize}},
      {"vgg16", "VGG configuration D, 13 convolutions", build_vgg16, {vgg_insize}},
      {"vgg19", "VGG configuration E, 16 convolutions", build_vgg19, {vgg_insize}},
      {"resnet18", "ResNet of 8 blocks of two 3 x 3 convolutions", build_resnet18, {resnet_insize}},
      {"resnet34", "ResNet of 16 blocks of two 3 x 3 convolutions", build_resnet34, {resnet_insize}},
      {"resnet50", "ResNet of 16 bottlenecks", build_resnet50, {resnet_insize}},
      {"resnet101", "ResNet of 33 bottlenecks", build_resnet101, {resnet_insize}},
      {"resnet152", "ResNet of 50 bottlenecks", build_resnet152, {resnet_insize}},
      {"googlenet", "GoogLeNet of 9 inception blocks, normalised", build_googlenet, {resnet_insize}},
      {"densenet121", "DenseNet of 58 dense layers in 4 blocks", build_densenet121, {resnet_insize}},
      {"mobilenet_v2", "MobileNetV2 of 17 inverted residuals", build_mobilenet_v2, {resnet_insize}},
      {"vgg11_cifar",
       "vgg11 for CIFAR-10: normalised, two small fully connected layers",
       build_vgg11_cifar,
       {vgg_cifar_insize}},
      {"vgg13_cifar",
       "vgg13 for CIFAR-10: normalised, two small fully connected layers",
       build_vgg13_cifar,
       {vgg_cifar_insize}},
      {"vgg16_cifar",
       "vgg16 for CIFAR-10: normalised, two small fully connected layers",
       build_vgg16_cifar,
       {vgg_cifar_insize}},
      {"vgg19_cifar",
       "vgg19 for CIFAR-10: normalised, two small fully connected layers",
       build_vgg19_cifar,
       {vgg_cifar_insize}},
      {"resnet18_cifar",
       "resnet18 for CIFAR-10: 3 x 3 stem, nothing halved before the blocks",
       build_resnet18_cifar,
       {cifar_insize}},
      {"resnet34_cifar",
       "resnet34 for CIFAR-10: 3 x 3 stem, nothing halved before the blocks",
       build_resnet34_cifar,
       {cifar_insize}},
      {"resnet50_cifar",
       "resnet50 for CIFAR-10: 3 x 3 stem, nothing halved before the blocks",
       build_resnet50_cifar,
       {cifar_insize}},
      {"resnet101_cifar",
       "resnet101 for CIFAR-10: 3 x 3 stem, nothing halved before the blocks",
       build_resnet101_cifar,
       {cifar_insize}},
      {"resnet20_cifar",
       "CIFAR-10 ResNet of 3 stages of 3 blocks, shortcuts projected",
       build_resnet20_cifar,
       {cifar_insize}},
      {"resnet32_cifar",
       "CIFAR-10 ResNet of 3 stages of 5 blocks, shortcuts projected",
       build_resnet32_cifar,
       {cifar_insize}},
      {"resnet44_cifar",
       "CIFAR-10 ResNet of 3 stages of 7 blocks, shortcuts projected",
       build_resnet44_cifar,
       {cifar_insize}},
      {"resnet56_cifar",
       "CIFAR-10 ResNet of 3 stages of 9 blocks, shortcuts projected",
       build_resnet56_cifar,
       {cifar_insize}},
      {"resnet110_cifar",
       "CIFAR-10 ResNet of 3 stages of 18 blocks, shortcuts projected",
       build_resnet110_cifar,
       {cifar_insize}},
      {"conv",
       "one convolution with a bias; trained with a given gradient of its output",
       build_conv,
       {{"c", "channels of the input", 64, 1, int32_most},
        {"h", "height of the input", 56, 1, int32_most},
        {"w", "width of the input", 56, 1, int32_most},
        {"k", "channels of the output", 64, 1, int32_most},
        {"kernel", "height and width of the filters", 3, 1, int32_most},
        {"stride", "step between windows", 1, 1, int32_most},
        {"pad", "zeros around the input", 1, 0, int32_most}}}};
  return families;
}

template <class Row>
std::string family_names(const std::vector<Row>& rows) {
  std::string all;
  for (const Row& row : rows) all += (all.empty() ? "" : ", ") + row.name;
  return all;
}

const network_family& family_of(const std::string& name) {
  const auto& all = table();
  const auto found = std::ranges::find(all, name, &network_family::name);
  if (found != all.end()) return *found;
  throw std::invalid_argument("unknown network '" + name + "'; there are " + family_names(all));
}

// Every knob of the family, given or standard.
network_spec with_default_knobs(const network_spec& spec, const network_family& family) {
  network_spec result = spec;
  for (const auto& [name, value] : spec.knobs) {
    const auto knob = std::ranges::find(family.knobs, name, &network_knob::name);
    if (knob == family.knobs.end()) {
      throw std::invalid_argument("network " + spec.name + " has no knob '" + name + "'; it has " +
                                  family_names(family.knobs));
    }
    if (value < knob->min_value || value > knob->max_value) {
      throw std::invalid_argument("network " + spec.name + ": " + name + " " + std::to_string(value) +
                                  " is outside " + std::to_string(knob->min_value) + " to " +
                                  std::to_string(knob->max_value));
    }
  }
  for (const network_knob& knob : family.knobs) result.knobs.try_emplace(knob.name, knob.default_value);
  if (spec.batch < 1) {
    throw std::invalid_argument("network " + spec.name + ": batch " + std::to_string(spec.batch) +
                                " is below 1");
  }
  if (const auto defect = update_defect(spec)) {
    throw std::invalid_argument("network " + spec.name + ": " + *defect);
  }
  return result;
}

void forbid_memory_sharing(graph& g) {
  g.shares_memory = false;
  for (op& o : g.ops) {
    const bool in_place =
        std::holds_alternative<relu>(o.attributes) || std::holds_alternative<relu_backward>(o.attributes);
    if (!in_place) o.alias.reset();
  }
}

}  // namespace

std::span<const network_family> network_families() {
  return table();
}

graph build_network(const network_spec& spec) {
  if (spec.imported_graph) return *spec.imported_graph;
  const network_family& family = family_of(spec.name);
  network_spec complete = with_default_knobs(spec, family);
  try {
    const memory_order order = complete.order.value_or(standard_order(complete.arithmetic));
    const bool apart = complete.fusion_mode == fusion::framework;
    if (apart) complete.fusion_mode = fusion::none;
    graph g = with_storage_format(family.build(complete), complete.arithmetic, order, complete.keeps_masters);
    if (apart) forbid_memory_sharing(g);
    if (complete.fusion_mode == fusion::lean && complete.mode == pass::train) g = recompute_cheap(g);
    if (complete.optimizer) g = with_optimizer_step(g, *complete.optimizer);
    if (const auto defect = defect_of(g)) throw std::invalid_argument(*defect);
    for (const op& o : g.ops) work_of(g, o);
    return g;
  } catch (const std::overflow_error& reason) {
    throw std::invalid_argument("network " + spec.name + ": " + reason.what());
  } catch (const std::invalid_argument& reason) {
    const std::string what = reason.what();
    const std::string prefix = "network " + spec.name;
    throw std::invalid_argument(what.starts_with(prefix) ? what : prefix + ": " + what);
  }
}

}  // namespace um
