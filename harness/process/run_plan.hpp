// Executes a plan and records results, engines and counters.
#pragma once

#include <chrono>

#include "backends/backend.hpp"
#include "harness/study/record.hpp"

namespace um {

// Records the engine of every operator, unless simulated.
void record_engines(record& r, const graph& g, const profile& costs);

// Runs the timed iterations and observes them. Returns the total time.
std::chrono::steady_clock::duration execute_and_record(record& r, const cell& work, backend& target,
                                                       const graph& g, const execution_plan& plan);

// Counts what the driver moves, in a separate pass on a GPU, or records why it cannot.
void count_and_record(record& r, backend& target, const graph& g, const execution_plan& plan);

}  // namespace um
