// The environment that records of this process name.
#pragma once

#include <optional>

#include "harness/study/environment.hpp"

namespace um {

// The GPU is asked for by a process of its own (isolation.hpp), so it is given.
environment collect_environment(std::optional<gpu_facts> gpu);

}  // namespace um
