// The parts in which tensors leave managed memory, and the computes that use them.
#pragma once

#include <vector>

#include "core/placement.hpp"
#include "schedule/uses.hpp"

namespace um {

// Into how many parts along its batch a tensor is cut to leave, where computes go over it in so many slices.
// Parts are whole blocks, so that each can be discarded by itself; where no number of parts makes them so,
// twinned tensors leave whole, and others in parts that share blocks.
std::uint32_t parts_to_leave(const tensor& t, residence home, std::uint32_t slices, byte_count part_bytes);

struct leaving_part {
  tensor_id what = 0;
  box part;
  range place;                 // in the managed arena
  bool is_alone = false;       // shares no block with another part of its tensor
  std::vector<position> uses;  // computes, ascending
};

// An operand of a compute in managed memory.
struct managed_operand {
  tensor_id what = 0;
  std::size_t begin = 0, end = 0;  // parts that it overlaps
  std::vector<range> touched;      // ranges of the managed arena
};

struct leaving_parts {
  std::vector<leaving_part> parts;                        // by tensor
  std::vector<std::size_t> first_of_tensor;               // per tensor, and one past the last
  std::vector<compute> order;                             // by position
  std::vector<std::vector<managed_operand>> of_position;  // per compute
};

// Of all tensors of a plan that lie in managed memory.
leaving_parts leaving_parts_of(const problem& p, const memory_plan& plan, const placement& at,
                               byte_count part_bytes);

}  // namespace um
