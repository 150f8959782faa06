// Keeps a plan within its budget: between computes it gives up what is to go next.
#pragma once

#include <vector>

#include "core/planner.hpp"
#include "hints/rules.hpp"

namespace um {

// As it stands: the driver's own way, for mode `capped`.
struct room_rules {
  evict_order order = evict_order::driver;
  std::int64_t gap = 0;              // of not_soon, in computes
  byte_count part_bytes = 64 * MiB;  // tensors leave in parts of about that size
  byte_count reserve_bytes = 0;      // of the budget, left free for what is fetched early
  bool fetch = false;                // what a compute reads is fetched before it, not brought in by faults;
                                     // twinned tensors always are
  bool populate = false;             // what a compute writes first gets its room before it
  std::vector<bool> leaves;          // per tensor: may be evicted; empty: all may
  std::vector<bool> discards;        // per tensor: discarded when dead, not evicted; empty: none
};

// Inserts evictions into a plan so that the device arena and all resident managed blocks stay within the
// budget. Victims are taken in the given order, the driver's being least recently migrated in or populated
// (kernel hits do not count: uvm_pmm_gpu.c, pick_root_chunk_to_evict), in parts of tensors where the driver
// takes 2 MiB chunks; tensors that may not leave only when nothing else is left, and twinned ones at the end
// of the iteration too if they persist. The operands of the next compute, and of those for which a prefetch
// is under way, are spared. A prefetch for which that leaves no room is dropped: its data then comes on
// demand.
// Throws infeasible, naming the operator, if one compute's operands exceed the budget.
memory_plan make_room(const problem& p, const memory_plan& plan, packer how, const room_rules& rules);

// Into how many parts along its batch a tensor is cut to leave, where computes go over it in so many slices.
// Parts are whole blocks, so that each can be discarded by itself; where no number of parts makes them so,
// twinned tensors leave whole, and others in parts that share blocks.
std::uint32_t parts_to_leave(const tensor& t, residence home, std::uint32_t slices, byte_count part_bytes);

}  // namespace um
