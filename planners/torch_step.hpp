// A training step as PyTorch's partitioner sees it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/names.hpp"

namespace um {

using torch_id = std::uint32_t;  // of a node: its place in the order of execution
inline constexpr torch_id no_node = UINT32_MAX;

enum class torch_kind : std::uint8_t {
  input,          // a parameter, an input of the step, or a gradient that comes from outside
  view,           // shares the memory of its first input
  item,           // one of several results of its first input
  pointwise,      // fused with its neighbours
  reduction,      // over the last dimensions: fused with its neighbours
  far_reduction,  // over other dimensions, or of neighbours: ends the fused kernel that it is in
  kernel,         // a product, a convolution, a library call: never fused
};
template <>
inline constexpr std::array enum_names<torch_kind>{"input"sv,     "view"sv,          "item"sv,  "pointwise"sv,
                                                   "reduction"sv, "far_reduction"sv, "kernel"sv};

struct torch_node {
  torch_kind kind = torch_kind::kernel;
  std::vector<torch_id> inputs;   // earlier nodes
  std::vector<torch_id> shifted;  // of these, what it reads elsewhere than where it writes
  std::int64_t bytes = 0;         // of its own memory; 0 for views and for several results
  std::int64_t elements = 0;      // its loop goes over
  std::int64_t ns = 0;            // of a kernel, with the gap to the next
  std::int64_t workspace = 0;     // bytes that a kernel needs while it runs
  int family = 0;                 // nodes that do the same in different layers share one
  double pace = 1;                // a fused kernel with this node reaches this share of the rate
  bool forward = false;           // the forward graph can run it: no incoming gradient is needed
  bool resident = false;          // a parameter or an input: there during the whole step
  bool repeatable = true;         // computing it again gives the same values
  bool widens = false;            // a pointwise node: its input in a wider type, made by each of its readers
  bool over_first = false;  // a kernel writes its result over its first input, if nothing reads that later
  bool forward_result = false, backward_result = false;
};

// One step as PyTorch's partitioner sees it: forward and backward nodes in order of execution.
struct torch_step {
  std::vector<torch_node> nodes;
  std::int64_t base_bytes = 0;      // what is on the device beside the tensors of the graph
  double bytes_per_ns = 1;          // of fused kernels
  std::int64_t launch_ns = 0;       // the shortest fused kernel
  std::int64_t between_ns = 0;      // from the end of a fused kernel to the next
  double link_bytes_per_ns = 0;     // of copies to the host and back, each way; 0: nothing is offloaded
  std::int64_t copy_ns = 0;         // of a copy, beside its bytes
  double copy_drag = 0;             // by how much of a copy's time the kernels beside it are longer
  std::int64_t host_kernel_ns = 0;  // that the CPU takes to launch a kernel
  std::int64_t host_copy_ns = 0;    // and a copy to the host or back
  bool fused = true;                // false: each node is a kernel
  bool stores_gradients = true;     // those that take less memory than what they are computed from
};

}  // namespace um
