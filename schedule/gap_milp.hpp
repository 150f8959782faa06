// The best decisions for an order of computes as a mixed-integer program over its gaps (tvDNN's integer
// program, Park et al., PPoPP 2018, and Checkmate's, Jain et al., MLSys 2020, in the form of intervals
// without a tensor).
#pragma once

#include "schedule/forecast.hpp"
#include "schedule/milp.hpp"

namespace um {

struct gap_program {
  byte_count room = 0;
  bool swaps = true, recomputes = true;
  std::size_t slots = 400;    // stretches of time, about equal, at whose ends a choice may change; at least
                              // one position each, so that as many as positions make it exact
  byte_count smallest = MiB;  // what is smaller stays
};

struct gap_solution {
  bool found = false, infeasible = false;
  nanoseconds time = 0, bound = 0;  // by the program's own clock: what the plan takes, and what no plan beats
  std::vector<decision> decisions;  // one a gap
  std::int64_t nodes = 0;
  std::size_t columns = 0, rows = 0;
};

// The program: for every gap and slot, whether the part's room is given up and taken back; shares of its
// copies out and back; where it is computed again, which needs what that reads. In each slot computes, copies
// in and copies out overlap, and it lasts as long as the longest of them. `live`: bytes at each position if
// all stays. Not in it: the order of copies within a slot, that both ways at once are slower, workspaces of
// what is computed again, packing. `start`: decisions to begin with. Throws unsupported without HiGHS.
gap_solution minimum_of(const problem& p, const use_table& uses, const std::vector<gap>& gaps,
                        const forecaster& costs, std::span<const byte_count> live, const gap_program& what,
                        const mixed_effort& effort, std::span<const decision> start = {});

}  // namespace um
