// The best decisions for an order of computes: the optimum of the program over gaps (gap_program.hpp).
#pragma once

#include <span>
#include <vector>

#include "schedule/forecast.hpp"
#include "schedule/milp/gap_program.hpp"
#include "schedule/milp/mixed_program.hpp"

namespace um {

struct gap_solution {
  bool found = false, infeasible = false;
  nanoseconds time = 0, bound = 0;  // by the program's own clock: what the plan takes, and what no plan beats
  std::vector<decision> decisions;  // one a gap
  std::int64_t nodes = 0;
  std::size_t columns = 0, rows = 0;
};

// `live`: bytes at each position if everything stays. `start`: decisions to begin with. Throws unsupported
// without HiGHS.
gap_solution minimum_of(const problem& p, const use_table& uses, const std::vector<gap>& gaps,
                        const forecaster& costs, std::span<const byte_count> live, const gap_program& what,
                        const mixed_effort& effort, std::span<const decision> start = {});

}  // namespace um
