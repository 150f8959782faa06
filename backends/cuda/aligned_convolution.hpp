// Convolutions whose operands may lie anywhere: some of cuDNN's engines fail at run time on addresses
// that are not multiples of 16 bytes, whatever alignment they were built for.
#pragma once

#include "backends/cuda/convolution_engines.hpp"

namespace um {

// An engine for operands that are multiples of `alignment` bytes, within `workspace_cap`. Below 16,
// operands are copied into the workspace, and the result back out of it; "copied " goes before the name.
// Throws unsupported if the copies do not fit.
engine choose_engine_for(session& on, const convolution_problem& problem, std::uint32_t alignment,
                         byte_count workspace_cap);

}  // namespace um
