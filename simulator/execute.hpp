// Executes a plan on a virtual clock: three lanes, integer nanoseconds, no randomness.
//
// A step starts when the step before it in its lane and every step it waits for have ended; steps that could
// start at the same time start in list order. Managed memory changes when a step starts. A discard of managed
// memory and any other call of the driver wait for each other, except what copies of twins discard and
// populate; a prefetch to the device first waits for half of one of the calls that an eviction in progress
// consists of. Transfers in opposite directions share the link: while both run, each gets half of
// link_both_bytes_per_s or, if the other needs less than half, what the other leaves, but never more than its
// own rate. A prefetch to the host keeps only prefetch_to_host_beside_percent of its speed beside one to the
// device, and it and the faults of a kernel slow each other down as the machine says. Speeds are kept in
// thousandths of the undisturbed speed.
#pragma once

#include <functional>

#include "core/trace.hpp"
#include "simulator/managed_memory.hpp"
#include "simulator/step_cost.hpp"

namespace um {

// The managed arena at the start of a run: tensors that persist lie on the host, the others nowhere.
// Its capacity is the budget without the device arena if the driver evicts by itself, else the memory of the
// machine without the device arena (then the plan keeps the budget). Throws infeasible if that is less than
// one block although the plan has managed tensors.
managed_memory managed_at_start(const simulated_run& run);

// Called with each step that starts, and the managed memory at that time.
using step_observer = std::function<void(const step&, const managed_memory&)>;

// One iteration, starting with the residency that the last one left. Every counter is filled. Throws
// std::invalid_argument for steps that wait for one another in a circle, a profile that does not
// fit the graph, or a rate the machine lacks.
trace run_iteration(const simulated_run& run, managed_memory& memory, bool timeline,
                    const step_observer& on_start = {});

}  // namespace um
