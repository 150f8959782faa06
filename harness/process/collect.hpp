// Collects the environment that records of this process refer to.
#pragma once

#include <optional>

#include "harness/study/environment.hpp"

namespace um {

// `gpu`: collected by another process (isolation.hpp).
environment collect_environment(std::optional<gpu_facts> gpu);

}  // namespace um
