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

inline small_network small(const std::string& label, const std::string& name, std::int64_t batch,
                           const variant& v = {}) {
  network_spec spec;
  spec.name = name;
  spec.batch = batch;
  spec.mode = v.mode;
  spec.sgd = v.sgd;
  spec.joined = v.joined;
  spec.arithmetic = v.arithmetic;
  spec.knobs = v.knobs;
  return {label, build(spec)};
}

inline std::vector<small_network> small_networks() {
  return {
      small("alexnet", "alexnet", 8),
      small("alexnet_sgd", "alexnet", 4, {.sgd = true}),
      small("alexnet_inference", "alexnet", 16, {.joined = fusion::fused, .mode = pass::inference}),
      small("vgg11", "vgg11", 4, {.joined = fusion::fused}),
      small("vgg16_bf16", "vgg16", 2, {.joined = fusion::lean, .arithmetic = precision::bf16, .sgd = true}),
      small(
          "conv", "conv", 4,
          {.knobs = {{"c", 32}, {"h", 64}, {"w", 64}, {"k", 48}, {"kernel", 3}, {"stride", 1}, {"pad", 1}}}),
      small("resnet20", "resnet20_cifar", 64),
      small("resnet20_fused", "resnet20_cifar", 64, {.joined = fusion::fused, .arithmetic = precision::tf32}),
      small("resnet20_lean", "resnet20_cifar", 64, {.joined = fusion::lean}),
      small("resnet20_bf16", "resnet20_cifar", 64, {.joined = fusion::lean, .arithmetic = precision::bf16}),
  };
}

}  // namespace um::testing
