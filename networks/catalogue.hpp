// Every network by name, as a table. A network is a function from its knobs to a graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph.hpp"

namespace um {

enum class pass : std::uint8_t { inference, train };

// How far operators are joined (networks/fusion.hpp, networks/recompute.hpp).
enum class fusion : std::uint8_t {
  none,   // convolution with bias, ReLU, normalisation and pool apart, as in the papers' frameworks
  fused,  // joined wherever one pass over the data does for several
  lean,   // as fused, and cheap tensors are computed again where that lowers the peak
};

// What to build. `knobs` hold what is particular to a network (alexnet: insize; conv: c, h, w, k,
// kernel, stride, pad; vgg: insize).
struct network_spec {
  std::string name;
  std::int64_t batch = 1;
  pass mode = pass::train;
  bool sgd = false;  // append an SGD update of every parameter
  fusion joined = fusion::fused;
  precision arithmetic = precision::fp32;
  std::optional<memory_order> order = {};  // nothing: standard_order(arithmetic)
  std::map<std::string, std::int64_t> knobs = {};
};

// The faster order on GPUs with matrix units: nchw for fp32, nhwc for tf32 and bf16.
memory_order standard_order(precision arithmetic);
std::string_view to_text(fusion joined);

struct network_knob {
  std::string name, summary;
  std::int64_t standard = 0, least = 1, most = 1;
};

struct network_family {
  std::string name, summary;
  graph (*build)(const network_spec&) = nullptr;
  std::vector<network_knob> knobs;
};

std::span<const network_family> networks();

// Builds a network of the catalogue, knobs completed with their defaults. Throws
// std::invalid_argument with one clear line for an unknown name or knob, a value out of range,
// extents that vanish or a size that overflows. The graph passes defect_of().
graph build(const network_spec& spec);

}  // namespace um
