// A plan executed: what came of it, and what it ran with, goes into the cell's record.
#pragma once

#include <chrono>

#include "backends/backend.hpp"
#include "harness/study/record.hpp"

namespace um {

// What every operator ran with; nothing where simulated.
void note_engines(record& r, const graph& g, const profile& costs);

// The timed iterations and what is observed beside them. Returns the time that all of it took.
std::chrono::steady_clock::duration execute_into(record& r, const cell& work, backend& on, const graph& g,
                                                 const execution_plan& plan);

// What the driver moves by itself, counted on a GPU in a pass of its own, or the reason why it is not.
void count_into(record& r, backend& on, const graph& g, const execution_plan& plan);

}  // namespace um
