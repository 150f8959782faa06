// When Unified Memory is counted, and on which GPUs.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "trace/session.hpp"

namespace um::tracing {

// CUPTI and the driver count once there is a context on a GPU.
void count_on(std::uint32_t device);
// Pauses and goes on as the budget says. By the fetcher.
void follow_budget(nanoseconds time);
// Also passes each record to `each`, so that the program counts the same, with faults or without; nullptr
// ends it. The trace marks the time between two calls as a range.
void set_follower(follower each, bool with_faults);
// A record of kind UNIFIED_MEMORY_COUNTER has come. By the writer.
void take_counter(const CUpti_ActivityUnifiedMemoryCounter3& counter);

}  // namespace um::tracing
