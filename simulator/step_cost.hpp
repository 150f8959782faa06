// The time of one step by itself, and the bytes that it moves.
#pragma once

#include <cstdint>

#include "core/trace.hpp"
#include "simulator/managed_memory.hpp"
#include "simulator/simulated_run.hpp"

namespace um {

// `undisturbed`: time with no other transfer in the way. `link_bytes_per_s`: the rate at which the step
// uses the link for all of that time, 0 if it does not.
struct step_cost {
  nanoseconds undisturbed = 0;  // time with no transfer in the way
  std::uint64_t link_bytes_per_s = 0;
  bool by_driver = false;              // a prefetch of managed memory that moves something
  nanoseconds fault_time = 0;          // the part of `undisturbed` in which a kernel waits for the driver
  nanoseconds eviction_call_time = 0;  // time of one call of an eviction
};

// Applies the step to the managed memory, adds the bytes that it moved to `moved` and returns its cost.
//
// A compute takes the time of cost_of(), plus the faults and evictions of its managed operands, each touched
// once in the order of the operands, plus its reads and writes over the link. Of an operand only the bytes of
// its region are touched. Faults do not contend for the link with the transfers of other lanes: they leave
// most of it idle. Managed memory is evicted in calls of the size that the step names. Advice and discards of
// staged data cost nothing. A twinned tensor is copied by a kernel, at the step's rate.
step_cost execute_step(const simulated_run& run, const step& s, managed_memory& memory, counters& moved);

}  // namespace um
