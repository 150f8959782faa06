// Executes a plan on a virtual clock: three lanes, integer nanoseconds, no randomness.
//
// A step starts when the step before it in its lane and every step it waits for have ended; steps that could
// start at the same time start in plan order. Managed memory changes when a step starts. A discard of managed
// memory and any other call of the driver wait for each other, except what copies of twins discard and
// populate; a prefetch to the device first waits for half of one of the calls that an eviction in progress
// consists of. Transfers in opposite directions share the link: while both run, each gets half of
// link_both_bytes_per_s or, if the other needs less than half, what the other leaves, but never more than its
// own rate. A prefetch to the host keeps only prefetch_to_host_beside_percent of its speed beside one to the
// device, and it and the faults of a kernel slow each other down as the machine says. Speeds are kept in
// thousandths of the undisturbed speed.
#pragma once

#include <cstdint>
#include <functional>

#include "core/trace.hpp"
#include "simulator/kernel_touches.hpp"
#include "simulator/managed_memory.hpp"

namespace um {

// `time_alone`: time without other transfers. `link_bytes_per_s`: the rate at which the step uses the link
// for all of that time; 0 if it does not.
struct step_cost {
  nanoseconds time_alone = 0;  // time without other transfers
  std::uint64_t link_bytes_per_s = 0;
  bool is_driver_prefetch = false;     // whether it is a prefetch of managed memory that moves something
  nanoseconds fault_time = 0;          // the part of `time_alone` in which a kernel waits for the driver
  nanoseconds eviction_call_time = 0;  // time of one call of an eviction
};

// Applies the step to the managed memory, adds the bytes that it moved to `moved` and returns its cost.
//
// A compute takes the time of cost_of(), plus the faults and evictions of its managed operands, each touched
// once in the order of the operands, plus its reads and writes over the link. Of an operand only the bytes of
// its region are touched. Faults do not contend for the link with the transfers of other lanes: they leave
// most of it idle. Managed memory is evicted in calls of the size that the step names. Advice and discards of
// staged data cost nothing. A twinned tensor is copied by a kernel, at the step's rate.
step_cost execute_step(const simulation_input& run, const step& s, managed_memory& memory, counters& moved);

// The managed arena at the start of a run: tensors that persist lie on the host, the others are unpopulated.
// Its capacity is the budget minus the device arena if the driver evicts; otherwise it is the machine's
// memory minus the device arena, since the plan keeps the budget. Throws infeasible if that is less than one
// block although the plan has managed tensors.
managed_memory managed_at_start(const simulation_input& run);

// Called when a step starts, with the managed memory at that time.
using step_observer = std::function<void(const step&, const managed_memory&)>;

// Runs one iteration, starting with the residency that the last one left. Sets every counter. Throws
// std::invalid_argument for steps that wait for one another in a circle, a profile that does not match the
// graph, or a missing rate of the machine.
trace run_iteration(const simulation_input& run, managed_memory& memory, bool timeline,
                    const step_observer& on_start = {});

}  // namespace um
