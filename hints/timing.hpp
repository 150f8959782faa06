// When within a plan what leaves does so.
#pragma once

#include "core/lower.hpp"
#include "core/placement.hpp"

namespace um {

// Moves the evictions and discards of managed memory in a plan's list, and nothing else. Each discard goes to
// right behind the last use before it. So does each eviction, unless the lane to the host is busy by then
// with discards or earlier evictions, after the machine's figures and computes with nothing in the way: then
// it goes to where its turn is or the budget ends, so that room that costs little never waits behind a copy.
// What was within the budget stays so. `at` is the plan's or its draft's. With departure_time::early no
// eviction waits for its turn.
enum class departure_time : std::uint8_t { in_turn, early };
memory_plan with_evictions_timed(const problem& p, const memory_plan& plan, const placement& at,
                                 departure_time when = departure_time::in_turn);

// A plan's steady iteration in the simulator, and what that leaves out: slices take longer than their shares
// of an operator, and copies to and from twins take multiprocessors away from the operators beside them.
nanoseconds expected_time(const problem& p, const execution_plan& steps);

}  // namespace um
