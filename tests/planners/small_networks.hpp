// Networks small enough for property tests, large enough that tensors fill managed blocks.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "networks/builder.hpp"
#include "networks/catalogue.hpp"
#include "networks/passes.hpp"

namespace um::testing {

struct small_network {
  std::string label;
  graph g;
};

// A fusion, a precision, and what else a network may be asked for.
struct variant {
  fusion fusion_mode = fusion::none;
  precision arithmetic = precision::fp32;
  pass mode = pass::train;
  bool sgd = false;
  std::map<std::string, std::int64_t> knobs{};
};

inline network_spec small_spec(const std::string& name, std::int64_t batch, const variant& v = {}) {
  return {.name = name,
          .batch = batch,
          .mode = v.mode,
          .appends_sgd = v.sgd,
          .fusion_mode = v.fusion_mode,
          .arithmetic = v.arithmetic,
          .knobs = v.knobs};
}

inline small_network small(const std::string& label, const std::string& name, std::int64_t batch,
                           const variant& v = {}) {
  return {label, build_network(small_spec(name, batch, v))};
}

// Two blocks of two convolutions with normalisations and sums.
inline graph residual_network(fusion joined, precision arithmetic) {
  builder b("residual", pass::train);
  const filters same{16, 3, 1, 1, false};
  tensor_id y =
      b.relu("relu", b.batch_norm("norm", b.convolution("conv", b.input("x", {64, 3, 32, 32}), same)));
  for (const std::string block : {"a", "b"}) {
    const tensor_id before = y;
    y = b.relu(block + "_relu1", b.batch_norm(block + "_norm1", b.convolution(block + "_conv1", y, same)));
    y = b.batch_norm(block + "_norm2", b.convolution(block + "_conv2", y, same));
    y = b.relu(block + "_relu2", b.add(block + "_sum", y, before));
  }
  const graph g = b.training(b.linear("fc", b.global_average_pool("mean", y), 10), joined, false);
  return with_storage_format(g, arithmetic,
                             arithmetic == precision::fp32 ? memory_order::nchw : memory_order::nhwc);
}

// By label. The last takes seconds to plan: tests of it are studies.
inline const std::vector<std::string>& small_network_labels() {
  static const std::vector<std::string> all{"alexnet_sgd", "alexnet_inference", "vgg11",         "vgg16_bf16",
                                            "conv",        "residual",          "residual_bf16", "resnet20"};
  return all;
}

inline graph small_graph(const std::string& label) {
  using enum fusion;
  const std::map<std::string, std::int64_t> one{{"c", 32},     {"h", 64},     {"w", 64}, {"k", 48},
                                                {"kernel", 3}, {"stride", 1}, {"pad", 1}};
  if (label == "alexnet_sgd") return build_network(small_spec("alexnet", 4, {.sgd = true}));
  if (label == "alexnet_inference")
    return build_network(small_spec("alexnet", 16, {.fusion_mode = fused, .mode = pass::inference}));
  if (label == "vgg11") return build_network(small_spec("vgg11", 4, {.fusion_mode = fused}));
  if (label == "vgg11_framework") return build_network(small_spec("vgg11", 4, {.fusion_mode = framework}));
  if (label == "vgg16_bf16")
    return build_network(
        small_spec("vgg16", 2, {.fusion_mode = lean, .arithmetic = precision::bf16, .sgd = true}));
  if (label == "conv") return build_network(small_spec("conv", 4, {.knobs = one}));
  if (label == "residual") return residual_network(none, precision::fp32);
  if (label == "residual_bf16") return residual_network(lean, precision::bf16);
  if (label == "resnet20")
    return build_network(
        small_spec("resnet20_cifar", 64, {.fusion_mode = fused, .arithmetic = precision::tf32}));
  throw std::invalid_argument(label);
}

}  // namespace um::testing
