// Inserts evictions that keep a plan within its budget.
#pragma once

#include "core/placement.hpp"
#include "hints/victims.hpp"

namespace um {

// Addresses for a draft whose twinned tensors nobody has prefetched yet.
placement placement_of_draft(const problem& p, const memory_plan& draft, packer arena_packer);

// Inserts evictions into a plan so that the device arena and all resident managed blocks stay within the
// budget, counted as lower() does (core/residency.hpp).
//
// Parts are evicted in the order of `options`. The driver's order is least recently migrated or populated
// (hits of kernels do not count: uvm_pmm_gpu.c, pick_root_chunk_to_evict); the driver evicts 2 MiB chunks,
// the plan parts of tensors. Tensors that may not be evicted go last, twinned tensors that persist also at
// the end of the iteration. The operands of the next compute, and those with a pending prefetch, stay. A
// prefetch without room is dropped: its data then comes on demand. `at` is the draft's placement.
//
// Throws infeasible, naming the operator, if one compute's operands exceed the budget.
memory_plan make_room(const problem& p, const memory_plan& draft, const placement& at,
                      const eviction_options& rules);

}  // namespace um
