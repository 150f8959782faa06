// Placing a plan of `best`: where its data lies, the memory it needs there, and its time.
#pragma once

#include <functional>
#include <optional>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "core/planner.hpp"

namespace um {

struct placed_plan {
  memory_plan plan;
  byte_count device_bytes = 0;  // bytes of device memory that it needs
  nanoseconds time =
      0;  // of an iteration, with copy_price(); set only if `device_bytes` is within the budget
};

// Functions that place and time plans for a budget. `place_decided`: a plan of the search, whose tensors are
// on the device or staged. `place_finished`: a plan of another strategy, placed as it is. They return nothing
// if the data cannot be placed.
struct placer {
  std::function<std::optional<placed_plan>(memory_plan, byte_count budget)> place_decided;
  std::function<std::optional<placed_plan>(memory_plan, byte_count budget)> place_finished;
  // Where packing takes a plan of the search beyond the budget; may be empty.
  std::function<std::vector<crowded_range>(const memory_plan&, byte_count budget)> find_crowded = {};
};

// Simulated time of the last of `iterations` iterations.
nanoseconds simulated_time(const problem& p, const execution_plan& steps, int iterations);
// The same with copy_price() added: what copies cost the operators that run beside them.
nanoseconds time_with_copy_price(const problem& p, const execution_plan& steps, int iterations);

}  // namespace um
