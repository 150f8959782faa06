// Networks small enough for property tests, large enough that tensors fill managed blocks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "networks/catalogue.hpp"

namespace um::testing {

struct small_network {
  std::string label;
  graph g;
};

// A fusion, a precision, and what else a network may be asked for.
struct variant {
  fusion joined = fusion::none;
  precision arithmetic = precision::fp32;
  pass mode = pass::train;
  bool sgd = false;
  std::map<std::string, std::int64_t> knobs{};
};

inline network_spec small_spec(const std::string& name, std::int64_t batch, const variant& v = {}) {
  network_spec spec;
  spec.name = name;
  spec.batch = batch;
  spec.mode = v.mode;
  spec.sgd = v.sgd;
  spec.joined = v.joined;
  spec.arithmetic = v.arithmetic;
  spec.knobs = v.knobs;
  return spec;
}

inline small_network small(const std::string& label, const std::string& name, std::int64_t batch,
                           const variant& v = {}) {
  return {label, build(small_spec(name, batch, v))};
}

// By label.
inline const std::map<std::string, network_spec>& small_networks() {
  static const std::map<std::string, network_spec> all{
      {"alexnet", small_spec("alexnet", 8)},
      {"alexnet_sgd", small_spec("alexnet", 4, {.sgd = true})},
      {"alexnet_inference", small_spec("alexnet", 16, {.joined = fusion::fused, .mode = pass::inference})},
      {"vgg11", small_spec("vgg11", 4, {.joined = fusion::fused})},
      {"vgg16_bf16",
       small_spec("vgg16", 2, {.joined = fusion::lean, .arithmetic = precision::bf16, .sgd = true})},
      {"conv",
       small_spec(
           "conv", 4,
           {.knobs =
                {{"c", 32}, {"h", 64}, {"w", 64}, {"k", 48}, {"kernel", 3}, {"stride", 1}, {"pad", 1}}})},
      {"resnet20", small_spec("resnet20_cifar", 64)},
      {"resnet20_fused",
       small_spec("resnet20_cifar", 64, {.joined = fusion::fused, .arithmetic = precision::tf32})},
      {"resnet20_bf16",
       small_spec("resnet20_cifar", 64, {.joined = fusion::lean, .arithmetic = precision::bf16})},
  };
  return all;
}

inline std::vector<std::string> small_network_labels() {
  std::vector<std::string> labels;
  for (const auto& [label, spec] : small_networks()) labels.push_back(label);
  return labels;
}

}  // namespace um::testing
