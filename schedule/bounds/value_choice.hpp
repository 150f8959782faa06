// The cheapest way to handle one value at given prices: keep it, copy it out once and back before each use,
// or compute it again (README.md, "One value").
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/bounds/whole_model.hpp"

namespace um::whole {

// The interval of a value's copy out, and the gap before whose end it happens.
struct chosen_copy {
  std::size_t interval = 0, gap = 0;
};

struct value_choice {
  double cost = 0;
  bool recomputes = false;  // recomputations may end its gaps
  std::size_t shared_begin = 0,
              shared_end = 0;  // gaps [begin, end) whose recomputation the closure pays for (closure.hpp)
  std::optional<chosen_copy> only_copy_out = {};  // after it the value may leave in every later gap
  bool stays_in_all_gaps = false;                 // although it could leave without a copy

  bool shares_run(std::size_t gap) const { return shared_begin <= gap && gap < shared_end; }
};

// How one gap is used. The value is on the device in [begin, away_begin) and [away_end, end).
struct gap_use {
  std::size_t away_begin = 0, away_end = 0;  // instants off the device
  bool is_copied_in = false, is_recomputed = false;
  bool shares_run = false;  // the closure pays for this run of the producer (closure.hpp)
};

// Costs of a value's options at given prices, tabulated per gap.
struct value_costs {
  struct copy_out_candidate {
    std::size_t interval = 0, gap = 0;
    double price = 0, away_cost = 0;  // price of the copy; cost of its gap if the value leaves after it
  };
  std::vector<double> keep_cost;  // per gap: cost of keeping the value
  std::vector<double> away_cost;  // per gap: cost if the value is off the device from the gap's start on
  std::vector<copy_out_candidate> copy_out_candidates;
  std::vector<std::pair<std::size_t, double>> return_costs;  // scratch
  std::vector<double> cost_without_copy;                     // scratch
};

void tabulate_value_costs(value_costs& costs, const price_index& at, const value& v, bool swaps);
value_choice cheapest_without_recompute(value_costs& costs, const price_index& at, const value& v);
// The cheapest choice if the closure pays for a first run of the producer. That run serves any one gap; if
// the producer writes several values that may share runs, it serves a gap of each.
value_choice cheapest_with_recompute(value_costs& costs, const price_index& at, const value& v,
                                     bool shares_producer);
gap_use choose_gap_use(const price_index& at, const value& v, const value_choice& choice, std::size_t gap);

}  // namespace um::whole
