// The trace of an iteration has its timeline and the bytes that it moved.
#pragma once

#include <chrono>

#include "backends/cuda/executor/run_state.hpp"
#include "core/trace.hpp"

namespace um {

// Copies and evictions are counted where they are issued. A prefetch of managed memory may find some of its
// range in place or nowhere yet, so the bytes that it moved stay unobserved, and so do faults and the
// driver's evictions. The timeline is of the events that the last iteration recorded.
trace trace_of(const run_state& run, std::chrono::nanoseconds duration, const moved_bytes& moved,
               bool timeline);

}  // namespace um
