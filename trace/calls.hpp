// Calls of the CUDA driver that tell it about managed memory.
#pragma once

#include <cupti.h>

#include <span>
#include <vector>

#include "trace/records.hpp"

namespace um::tracing {

// cuMemAllocManaged, and every prefetch, advice and discard.
std::span<const CUpti_CallbackId> watched_calls();

// The hints that such a call gives, one for each of its ranges, without times and callers; empty for other
// calls. `parameters` are CUPTI's (generated_cuda_meta.h).
std::vector<hint> hints_of(CUpti_CallbackId call, const void* parameters);

}  // namespace um::tracing
