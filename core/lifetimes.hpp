// When each tensor needs an address: the intervals of a plan during which bytes must be held in
// the device arena or the managed arena. Input of packing, and of the hazards lower() finds.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/memory_plan.hpp"
#include "core/planner.hpp"

namespace um {

inline constexpr std::uint32_t no_lifetime = std::numeric_limits<std::uint32_t>::max();

// Cells [begin, end) along the batch.
struct part_run {
  std::uint32_t begin = 0, end = 1;
};

// Cells [parts.begin, parts.end) along a tensor's batch, all of the other axes (or the workspace of one
// compute: tensor == no_lifetime) held during actions [begin, end). A staged tensor has one lifetime per
// residency.
struct lifetime {
  tensor_id what = no_lifetime;
  part_run parts;
  bool managed = false;  // in the managed arena, else in the device arena
  std::uint32_t begin = 0, end = 0;
  byte_count bytes = 0;
  byte_count alignment = arena_alignment;
  byte_count first_byte = 0;           // of parts.begin inside the tensor
  std::uint32_t shares = no_lifetime;  // index of the lifetime whose address it takes over in place
};

struct lifetime_table {
  std::vector<lifetime> all;
  std::vector<std::vector<std::uint32_t>> of_tensor;  // indices into all, by begin
  std::vector<std::uint32_t> workspace_of_action;     // index into all, or no_lifetime

  // The lifetime of a part of the batch that holds at an action; no_lifetime if there is none.
  std::uint32_t at(tensor_id what, std::uint32_t part, std::uint32_t now) const;
};

// `plan` has passed defect_of(). Lifetimes of managed tensors follow from the computes alone:
// movements do not change their addresses.
lifetime_table lifetimes_of(const graph& g, const profile& costs, const memory_plan& plan,
                            const std::vector<cell_grid>& cells);

// Offset of the first byte of a part of the batch.
byte_count first_byte_of(const tensor& t, const cell_grid& cells, std::uint32_t part);
// The parts of the batch that a region touches.
part_run parts_of(const cell_grid& cells, const region& r);

}  // namespace um
