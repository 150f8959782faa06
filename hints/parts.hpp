// The parts in which tensors leave managed memory, and the computes that use each.
#pragma once

#include <vector>

#include "core/managed_map.hpp"
#include "schedule/uses.hpp"

namespace um {

// Number of parts along the batch in which a tensor is evicted if computes cut it into `slices`. Parts are
// whole blocks, so that each can be discarded alone. If no number of parts achieves that, twinned tensors are
// one part, and others have parts that share blocks.
std::uint32_t eviction_part_count(const tensor& t, residence home, std::uint32_t slices,
                                  byte_count part_bytes);

struct evictable_part {
  tensor_id tensor = 0;
  box region;
  range address_range;           // range in the managed arena
  bool shares_no_block = false;  // whether no other part of its tensor shares a block with it
  std::vector<position> uses;    // positions of the computes that use it, ascending
};

// An operand of a compute that lies in managed memory.
struct managed_operand {
  tensor_id tensor = 0;
  std::size_t part_begin = 0, part_end = 0;  // indices of the parts that it overlaps
  std::vector<range> touched_ranges;         // ranges that it touches in the managed arena
};

struct evictable_parts {
  std::vector<evictable_part> parts;                   // sorted by tensor
  std::vector<std::size_t> first_part;                 // per tensor, and one past the last
  std::vector<compute> order;                          // the computes, by position
  std::vector<std::vector<managed_operand>> operands;  // per position: operands in managed memory
};

// The parts of all managed tensors of a plan.
evictable_parts find_evictable_parts(const problem& p, const memory_plan& plan, const placement& at,
                                     byte_count part_bytes);

}  // namespace um
