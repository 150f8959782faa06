// Chooses when evictions and discards of a plan happen.
#pragma once

#include "core/lower.hpp"
#include "core/machine.hpp"
#include "core/managed_map.hpp"
#include "core/memory_plan.hpp"

namespace um {

// Moves the evictions and discards of managed memory within a plan, and changes nothing else. Each discard
// moves to just after the last use before it. So does each eviction, unless the lane to the host is busy then
// with discards or earlier evictions (by the machine's figures, computes undelayed): then it moves to when
// its turn comes or the budget is reached, so that discards, which are cheap, never wait behind a copy. The
// plan stays within the budget. `at`: placement of the plan or its draft. With eviction_timing::early no
// eviction waits for its turn.
enum class eviction_timing : std::uint8_t { in_turn, early };
memory_plan retime_evictions(const problem& p, const memory_plan& plan, const placement& at,
                             eviction_timing when = eviction_timing::in_turn);

// Time of a plan's steady iteration in the simulator, with two corrections: slices take longer than their
// share of an operator, and copies to and from twins slow down operators that run beside them.
nanoseconds expected_iteration_time(const problem& p, const execution_plan& steps);

// Times by a machine's figures, with nothing else running. evict_time(): an eviction by the driver or, for
// twinned memory, a copy to the twin and a discard.
nanoseconds evict_time(const machine& m, byte_count blocks, residence home);
nanoseconds discard_time(const machine& m, byte_count blocks);

}  // namespace um
