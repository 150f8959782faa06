// A training step as PyTorch's partitioner sees it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/names.hpp"

namespace um {

using torch_id = std::uint32_t;  // index of a node in the order of execution
inline constexpr torch_id no_node = UINT32_MAX;

enum class torch_kind : std::uint8_t {
  input,          // a parameter, an input of the step, or an incoming gradient
  view,           // shares the memory of its first input
  item,           // one result of an input with several results
  pointwise,      // fused with its neighbours
  reduction,      // reduces the last dimensions; fused with its neighbours
  far_reduction,  // reduces other dimensions or windows; the last node of its fused kernel
  kernel,         // a library call, such as a product or convolution; never fused
};
template <>
inline constexpr std::array enum_names<torch_kind>{"input"sv,     "view"sv,          "item"sv,  "pointwise"sv,
                                                   "reduction"sv, "far_reduction"sv, "kernel"sv};

struct torch_node {
  torch_kind kind = torch_kind::kernel;
  std::vector<torch_id> inputs;          // earlier nodes
  std::vector<torch_id> shifted_inputs;  // inputs of which it reads other elements than those that it writes
  std::int64_t bytes = 0;                // of its own memory; 0 for views and for nodes with several results
  std::int64_t elements = 0;             // number of iterations of its loop
  std::int64_t ns = 0;                   // time of a library call, with the gap to the next kernel
  std::int64_t workspace = 0;            // bytes that a kernel needs while it runs
  int family = 0;                        // number shared by nodes that do the same in different layers
  double bandwidth_share = 1;    // share of torch_step::bytes_per_ns that a kernel with this node reaches
  bool can_run_forward = false;  // the forward graph can run it: no incoming gradient is needed
  bool is_resident = false;      // a parameter or an input of the step, on the device throughout
  bool is_repeatable = true;     // computing it again gives the same values
  bool is_widening = false;      // a conversion to a wider type, which each reader repeats
  bool writes_over_first_input =
      false;  // a library call that may overwrite its first input after that input's last use
  bool is_forward_result = false, is_backward_result = false;
};

// One step as PyTorch's partitioner sees it: forward and backward nodes in order of execution.
struct torch_step {
  std::vector<torch_node> nodes;
  std::int64_t base_bytes = 0;            // bytes on the device beside the graph's tensors
  double bytes_per_ns = 1;                // rate of fused kernels
  std::int64_t min_kernel_ns = 0;         // minimum time of a fused kernel
  std::int64_t kernel_gap_ns = 0;         // from the end of a fused kernel to the start of the next
  double link_bytes_per_ns = 0;           // rate of copies in each direction; 0: nothing is offloaded
  std::int64_t copy_latency_ns = 0;       // fixed time of a copy
  double kernel_slowdown = 0;             // delay of the kernels beside a copy, as a share of the copy's time
  std::int64_t kernel_launch_cpu_ns = 0;  // CPU time to launch a kernel
  std::int64_t copy_launch_cpu_ns = 0;    // CPU time to launch a copy
  bool fuses_kernels = true;              // false: each node runs as its own kernel
  bool stores_gradients = true;  // whether to store gradients that take less memory than their inputs
};

}  // namespace um
