// Finds optimal decisions for an order of computes by the integer program over gaps (gap_model.hpp).
#pragma once

#include <span>
#include <vector>

#include "schedule/forecast.hpp"
#include "schedule/milp/gap_model.hpp"
#include "schedule/milp/mixed_program.hpp"

namespace um {

struct gap_solution {
  bool is_feasible = false, is_infeasible = false;
  nanoseconds time = 0, bound = 0;  // the plan's time in the program's model, and a lower bound on it
  std::vector<decision> decisions;  // one per gap
  std::int64_t node_count = 0;
  std::size_t column_count = 0, row_count = 0;
};

// `live_at_positions`: bytes alive at each if no part leaves. `start`: decisions to start from, if any.
// Throws unsupported without HiGHS.
gap_solution minimize(const problem& p, const use_table& uses, const std::vector<gap>& gaps,
                      const forecaster& costs, std::span<const byte_count> live_at_positions,
                      const gap_program_options& options, const solver_limits& effort,
                      std::span<const decision> start = {});

}  // namespace um
