// When Unified Memory is counted, and on which GPUs.
#pragma once

#include <cstdint>

#include "trace/session.hpp"
#include "trace/unified_memory.hpp"

namespace um::tracing {

// CUPTI and the driver count once there is a context on a GPU.
void start_counting_on(std::uint32_t device);
// Pauses and goes on as the budget says. By the fetcher.
void pause_or_resume_by_budget(nanoseconds time);
// Reads the driver's new events; with `flush`, those of all finished work. By the fetcher.
void fetch_events(bool flush);
// Called once the program has ended.
void end_counting();
// Also passes each record to `each`, so that the program counts the same; nullptr ends it. `with_faults`:
// whether it needs faults. The trace keeps its own beside it, unless CUPTI counts, and then says that it
// lacks them. It marks the time between two calls as a range.
void set_follower(follower each, bool with_faults);
// Adds a record to the trace and to what counting has cost, and passes it to the follower. By the writer.
void take_record_of_memory(const unified_memory_record& r);

}  // namespace um::tracing
