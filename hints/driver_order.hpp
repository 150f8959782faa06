// Evictions for mode `capped`: between operators the plan gives up what the driver would give up
// next.
#pragma once

#include "core/planner.hpp"

namespace um {

// Inserts evictions into a managed plan so that the device arena and all resident managed blocks
// stay within the budget. Victims are taken in the driver's order (least recently migrated in or
// populated; kernel hits do not count: uvm_pmm_gpu.c, pick_root_chunk_to_evict), in parts of
// tensors of about 64 MiB where the driver takes 2 MiB chunks. The operands of the next operator,
// and of those for which a prefetch is under way, are spared. A prefetch for which that leaves
// no room is dropped: its data then comes on demand.
// Throws infeasible, naming the operator, if one operator's operands exceed the budget.
memory_plan evict_in_driver_order(const problem& p, const memory_plan& plan, packer how);

}  // namespace um
