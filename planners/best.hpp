// What `best` and `best_managed` share (docs/best.md): candidates, decide, place, repair.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/lower.hpp"
#include "core/planner.hpp"

namespace um {

struct placed_plan {
  memory_plan plan;
  byte_count need = 0;   // of device memory
  nanoseconds time = 0;  // of an iteration with the price of its copies, where `need` is within the budget
};

// How plans are placed and timed. `decided`: a plan of whole or cut operators with data on the device or
// staged; `finished`: another strategy's plan, as it is. Nothing where the data cannot live so.
struct placer {
  std::function<std::optional<placed_plan>(memory_plan)> decided, finished;
};

// Of an iteration, the `iterations`th.
nanoseconds simulated_time(const problem& p, const execution_plan& steps, int iterations);
// The same, and what its copies cost the operators beside them (copy_price).
nanoseconds priced_time(const problem& p, const execution_plan& steps, int iterations);

struct search_request {
  std::string name;                  // in whose name it fails
  bool and_without = false;          // also decide without moving anything
  std::span<const strategy> rivals;  // strategies whose plans it must not be slower than
};

// The plan of the least priced time of those that the search decides for the budget and for a ladder of
// smaller ones, and of the rivals' plans. Reads knobs `bits`, `copies` and `copy_us`. Throws infeasible where
// there is none.
memory_plan plan_best(const problem& p, const placer& place, const search_request& by);

// The least priced time of the plans of `by` for the budget and, where their data takes more when it is
// placed, for somewhat less; nothing where it has none. `same_bits`: only of strategies that keep the bits.
std::optional<placed_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> by,
                                      bool same_bits);

}  // namespace um
