// An operator is implemented in three stages: an engine is chosen for a shape, bound to operands before the
// first step, and called once per execution.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "backends/cuda/engine_cache.hpp"

namespace um {

// Launches on the session's compute stream and allocates nothing.
using kernel_call = std::function<void()>;

// Device addresses: of the operands, in the operator's order, and of the workspace.
struct bound_operands {
  std::vector<std::byte*> data;
  std::byte* workspace = nullptr;
};

struct engine {
  engine_choice choice;
  std::function<kernel_call(const bound_operands&)> bind;
};

}  // namespace um
