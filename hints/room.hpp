// Keeps a plan within its budget: between computes it gives up what is to go next.
#pragma once

#include "core/placement.hpp"
#include "hints/victims.hpp"

namespace um {

// Where the values of a plan lie whose twinned tensors nobody has fetched yet.
placement placement_of_draft(const problem& p, const memory_plan& draft, packer how);

// Inserts evictions into a plan so that the device arena and all resident managed blocks stay within the
// budget, by the account that lower() keeps (core/residency.hpp). Victims are taken in the given order, the
// driver's being least recently migrated in or populated (kernel hits do not count: uvm_pmm_gpu.c,
// pick_root_chunk_to_evict), in parts of tensors where the driver takes 2 MiB chunks; tensors that may not
// leave only when nothing else is left, and twinned ones at the end of the iteration too if they persist. The
// operands of the next compute, and of those for which a prefetch is under way, are spared. A prefetch for
// which that leaves no room is dropped: its data then comes on demand. `at` is the draft's.
// Throws infeasible, naming the operator, if one compute's operands exceed the budget.
memory_plan make_room(const problem& p, const memory_plan& draft, const placement& at,
                      const room_rules& rules);

}  // namespace um
