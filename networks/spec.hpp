// Specification of a network: name, knobs, precision and so on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/graph.hpp"
#include "core/names.hpp"

namespace um {

enum class pass : std::uint8_t { inference, train };
template <>
inline constexpr std::array enum_names<pass>{"inference"sv, "train"sv};

// How operators and their memory are fused (networks/passes.hpp).
enum class fusion : std::uint8_t {
  none,   // convolution, ReLU, normalisation and pool as separate operators, as in the papers' frameworks
  fused,  // operators are fused if one pass over the data is enough for them
  lean,   // like fused, and cheap tensors are recomputed if that lowers the peak
  // like none, but only in-place ReLUs share memory: every layer has its own data and gradient, as in Caffe
  framework,
};
template <>
inline constexpr std::array enum_names<fusion>{"none"sv, "fused"sv, "lean"sv, "framework"sv};

// The optimizer that updates parameters, in one operator (core/operators.hpp: optimizer_step). Ordered by the
// number of moments per parameter.
enum class optimizer_kind : std::uint8_t { sgd, momentum, adamw };
template <>
inline constexpr std::array enum_names<optimizer_kind>{"sgd"sv, "momentum"sv, "adamw"sv};

// `knobs` are parameters of one network (alexnet: insize; conv: c, h, w, k, kernel, stride, pad; vgg:
// insize).
struct network_spec {
  std::string name;
  std::int64_t batch = 1;
  pass mode = pass::train;
  bool appends_sgd = false;  // append an SGD update of every parameter, one operator each
  std::optional<optimizer_kind> optimizer =
      {};                      // append the optimizer's step and its states; nothing: no step
  bool keeps_masters = false;  // filters and matrices are bf16, with fp32 masters among the states
  fusion fusion_mode = fusion::fused;
  precision arithmetic = precision::fp32;
  std::optional<memory_order> order = {};  // nothing: standard_order(arithmetic)
  std::map<std::string, std::int64_t> knobs = {};
  // The graph of a network from a file. The other fields describe it as far as possible; its name contains
  // the graph's digest.
  std::shared_ptr<const graph> imported_graph = {};
  friend bool operator==(const network_spec& a, const network_spec& b);  // compares all fields but the graph
};

// The reason why the parameters cannot be updated as specified; nothing if they can.
std::optional<std::string> update_defect(const network_spec& spec);

// The specification of an imported graph, named "NAME#DIGEST" after its content, so that two graphs of one
// name differ.
network_spec imported_spec(graph g, const std::string& digest);

// The memory order that is faster on GPUs with matrix units: nchw for fp32, nhwc for tf32 and bf16.
memory_order standard_order(precision arithmetic);

struct network_knob {
  std::string name, summary;
  std::int64_t default_value = 0, min_value = 1, max_value = 1;
};

}  // namespace um
