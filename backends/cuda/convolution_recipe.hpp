// One way to compute a convolution.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/engine.hpp"

namespace um {

struct convolution_recipe {
  std::string name;
  std::string engine_family;  // variants of one engine share it: if one is far behind, so are the others
  std::int64_t position = 0;  // in the library's list of candidates
  std::int64_t parts = 1;     // equal parts of the batch, computed one after the other
  byte_count workspace_bytes = 0;
  std::function<kernel_call(const bound_operands&)> bind;
};

}  // namespace um
