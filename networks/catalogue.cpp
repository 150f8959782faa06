#include "networks/catalogue.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "core/access.hpp"
#include "networks/families.hpp"
#include "networks/passes.hpp"

namespace um {
namespace {

constexpr std::int64_t int32_most = std::numeric_limits<std::int32_t>::max();
// Maximum insize: beyond it a position in the last pool's window does not fit in 16 bits.
constexpr std::int64_t alexnet_most = 85 * 224;
constexpr std::int64_t insize_most = 1 << 20;

const char* const image_size = "height and width of an image";
const char* const image_size_32 = "height and width of an image, a multiple of 32";

using family_table = std::vector<network_family>;

void add_vggs(family_table& all, bool of_cifar) {
  struct configuration {
    char letter;
    vgg_stages depth;
  };
  for (const auto& [letter, depth] : {configuration{'A', {1, 1, 2, 2, 2}},
                                      {'B', {2, 2, 2, 2, 2}},
                                      {'D', {2, 2, 3, 3, 3}},
                                      {'E', {2, 2, 4, 4, 4}}}) {
    const int convolutions = std::accumulate(depth.begin(), depth.end(), 0);
    const std::string name = "vgg" + std::to_string(convolutions + 3);
    if (of_cifar) {
      all.push_back({name + "_cifar",
                     name + " for CIFAR-10: normalised, two small fully connected layers",
                     [depth](const network_spec& spec) { return build_vgg_cifar(spec, depth); },
                     {{"insize", image_size_32, 32, 32, insize_most}}});
    } else {
      all.push_back(
          {name,
           std::string("VGG configuration ") + letter + ", " + std::to_string(convolutions) + " convolutions",
           [depth](const network_spec& spec) { return build_vgg(spec, depth); },
           {{"insize", image_size_32, 224, 32, insize_most}}});
    }
  }
}

void add_resnet(family_table& all, const std::string& name, const std::string& summary,
                const resnet_architecture& a) {
  all.push_back({name,
                 summary,
                 [a](const network_spec& spec) { return build_resnet(spec, a); },
                 {{"insize", image_size, a.first == resnet_stem::imagenet ? 224 : 32, 1, insize_most}}});
}

void add_resnets(family_table& all) {
  const std::string small = " blocks of two 3 x 3 convolutions", large = " bottlenecks";
  add_resnet(all, "resnet18", "ResNet of 8" + small, {.blocks = {2, 2, 2, 2}});
  add_resnet(all, "resnet34", "ResNet of 16" + small, {.blocks = {3, 4, 6, 3}});
  add_resnet(all, "resnet50", "ResNet of 16" + large, {.blocks = {3, 4, 6, 3}, .bottleneck = true});
  add_resnet(all, "resnet101", "ResNet of 33" + large, {.blocks = {3, 4, 23, 3}, .bottleneck = true});
  add_resnet(all, "resnet152", "ResNet of 50" + large, {.blocks = {3, 8, 36, 3}, .bottleneck = true});
}

void add_cifar_resnets(family_table& all) {
  const auto like = [&](const std::string& name, const std::array<int, 4>& blocks, bool bottleneck) {
    add_resnet(all, name + "_cifar", name + " for CIFAR-10: 3 x 3 stem, nothing halved before the blocks",
               {resnet_stem::cifar, blocks, bottleneck, 64, 10});
  };
  like("resnet18", {2, 2, 2, 2}, false);
  like("resnet34", {3, 4, 6, 3}, false);
  like("resnet50", {3, 4, 6, 3}, true);
  like("resnet101", {3, 4, 23, 3}, true);
  for (const int blocks : {3, 5, 7, 9, 18}) {
    const std::string count = std::to_string(blocks);
    add_resnet(all, "resnet" + std::to_string(6 * blocks + 2) + "_cifar",
               "CIFAR-10 ResNet of 3 stages of " + count + " blocks, shortcuts projected",
               {resnet_stem::cifar, {blocks, blocks, blocks, 0}, false, 16, 10});
  }
}

family_table make_table() {
  const network_knob insize{"insize", image_size, 224, 1, insize_most};
  family_table all{{"alexnet",
                    "AlexNet in one column, 5 convolutions and 3 fully connected layers",
                    build_alexnet,
                    {{"insize", "height and width of an image, a multiple of 224", 224, 224, alexnet_most}}}};
  add_vggs(all, false);
  add_resnets(all);
  all.push_back({"googlenet", "GoogLeNet of 9 inception blocks, normalised", build_googlenet, {insize}});
  all.push_back({"densenet121", "DenseNet of 58 dense layers in 4 blocks", build_densenet121, {insize}});
  all.push_back({"mobilenet_v2", "MobileNetV2 of 17 inverted residuals", build_mobilenet_v2, {insize}});
  add_vggs(all, true);
  add_cifar_resnets(all);
  all.push_back({"conv",
                 "one convolution with a bias; trained with a given gradient of its output",
                 build_conv,
                 {{"c", "channels of the input", 64, 1, int32_most},
                  {"h", "height of the input", 56, 1, int32_most},
                  {"w", "width of the input", 56, 1, int32_most},
                  {"k", "channels of the output", 64, 1, int32_most},
                  {"kernel", "height and width of the filters", 3, 1, int32_most},
                  {"stride", "step between windows", 1, 1, int32_most},
                  {"pad", "zeros around the input", 1, 0, int32_most}}});
  return all;
}

const family_table& table() {
  static const family_table families = make_table();
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

// The specification with default values for the family's missing knobs.
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
    const bool in_place = has_kind<relu, relu_backward>(o);
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
