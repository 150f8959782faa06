// What is cheapest for one value at given prices: it is kept, copied out once and back before each use, or
// computed again (README.md, "One value").
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/bounds/prices.hpp"

namespace um::whole {

// The interval of a value's copy out, and the gap by the end of which it takes place.
struct chosen_copy {
  std::size_t interval = 0, gap = 0;
};

struct value_choice {
  double cost = 0;
  bool recomputes = false;
  std::size_t shared_begin = 0, shared_end = 0;  // gaps [begin, end): the closure pays for the run in them
  std::optional<chosen_copy> out = {};
  bool resident = false;  // stays on the device throughout, although it could leave without a copy

  bool shares_run(std::size_t gap) const { return shared_begin <= gap && gap < shared_end; }
};

// How one gap is used. The value is on the device in [first, leaves) and [back, last).
struct gap_use {
  std::size_t leaves = 0, back = 0;
  bool copied_in = false, recomputed = false;
  bool shares_run = false;  // the closure pays for the run
};

// What a value's choices are made from; computed once for a value and prices.
struct value_costs {
  struct copy_candidate {
    std::size_t interval = 0, gap = 0;
    double price = 0, away = 0;  // cost of the copy; cost of the gap if the value then leaves
  };
  std::vector<double> kept;  // per gap: cost of keeping the value
  std::vector<double> away;  // per gap: cost if it is away from the start of the gap on
  std::vector<copy_candidate> copies;
  std::vector<std::pair<std::size_t, double>> returns;  // scratch
  std::vector<double> stays;                            // scratch
};

void tabulate(value_costs& costs, const price_index& at, const value& v, bool swaps);
value_choice cheapest_without_recompute(value_costs& costs, const price_index& at, const value& v);
// With a first run of the producer for which the closure pays: in any one gap or, where the producer makes
// several values, which may share runs, in all of them.
value_choice cheapest_with_recompute(value_costs& costs, const price_index& at, const value& v,
                                     bool shares_producer);
gap_use use_of(const price_index& at, const value& v, const value_choice& choice, std::size_t gap);

}  // namespace um::whole
