// Small graphs that hold an operator each, with its gradient: what the operators' tests run.
#pragma once

#include <string>
#include <vector>

#include "core/graph.hpp"

namespace um::gpu_tests {

struct operator_case {
  std::string name;
  graph g;  // f32; networks/passes.hpp makes other types and orders of it
};

struct operator_group {
  std::string name;
  std::vector<operator_case> cases;
  bool of_libraries = false;  // cuDNN or cuBLASLt computes them, not umbench's kernels
};
std::vector<operator_group> operator_groups();

// The types and memory orders that every case is run in.
struct storage {
  precision arithmetic = precision::fp32;
  memory_order order = memory_order::nchw;
};
std::string name_of(const storage& s);

}  // namespace um::gpu_tests
