// The parts of tensors that an order of computes touches, their uses in order, and the gaps between uses,
// during which a part may leave the device.
#pragma once

#include <cstdint>
#include <vector>

#include "core/planner.hpp"

namespace um {

using position = std::int32_t;  // an index into an order; -1: before the first, its size: after the last
using part_id = std::uint32_t;  // an index into use_table::parts

// Images [begin, end) of a tensor (without a batch: its first extent). Parts end where a region that the
// order touches begins or ends.
struct tensor_part {
  tensor_id tensor = 0;
  std::int64_t begin = 0, end = 0;
  byte_count bytes = 0;  // a multiple of arena_alignment
};

struct use {
  position at = 0;
  access_mode mode = access_mode::read;
};
struct touched_part {
  part_id part = 0;
  access_mode mode = access_mode::read;
};

struct use_table {
  std::vector<compute> order;       // the computes; a position is an index into it
  std::vector<tensor_part> parts;   // by tensor, then by `begin`
  std::vector<part_id> first_part;  // per tensor, and one past the last
  std::vector<std::vector<use>>
      uses_of_part;  // uses of each part, in order; an operator that reads and writes it counts as a write
  std::vector<std::vector<touched_part>> touched_parts;  // per position: the parts that it touches, each once
  // Per position: the parts that its recomputation touches, if that is another operator
  // (core/memory_plan.hpp); otherwise empty.
  std::vector<std::vector<touched_part>> recompute_touched_parts;
  // First position of the backward pass, which writes a gradient; the size of the order if there is none.
  position backward_begin = 0;

  position end() const { return static_cast<position>(order.size()); }
  const std::vector<touched_part>& touched_by_recompute(position at) const {
    const auto i = static_cast<std::size_t>(at);
    return recompute_touched_parts[i].empty() ? touched_parts[i] : recompute_touched_parts[i];
  }
};

// At which regions' borders tensors are cut into parts: all regions that the order touches, or only those
// that it writes, as in a plan (core/memory_plan.hpp, cells_of).
enum class part_borders : std::uint8_t { touched, written };

// Throws std::invalid_argument, naming the operator, if an operator cannot be cut as the order requires.
use_table make_use_table(const graph& g, std::vector<compute> order,
                         part_borders cut = part_borders::touched);

// Whether the tensor keeps its memory on the device all the time unless it is staged.
bool keeps_memory(const graph& g, tensor_id t);

// The part as a box, as actions refer to it.
box box_of(const graph& g, const tensor_part& part);

// Bytes of the parts that a compute touches and of which `counts` is true. An output in place lies in its
// input's memory.
byte_count touched_bytes(const graph& g, const use_table& uses, position at, const auto& counts) {
  const auto& here = uses.touched_parts[static_cast<std::size_t>(at)];
  const op& o = g.ops[uses.order[static_cast<std::size_t>(at)].op];
  byte_count bytes = 0;
  for (const touched_part& x : here) {
    const bool in_place = o.alias && uses.parts[x.part].tensor == o.out[o.alias->output];
    if (!in_place && counts(x.part)) bytes += uses.parts[x.part].bytes;
  }
  return bytes;
}

// The time between two consecutive uses of a part. `last_use` is -1 before the first use of a tensor that
// starts on the host (inputs, labels, parameters). `next_use` is the size of the order after the last use of
// a tensor that must be kept.
struct gap {
  part_id part = 0;
  position last_use = 0, next_use = 0;
  bool has_host_copy = false;  // the host copy is valid in the gap if the tensor is staged
  bool is_recomputable =
      false;  // it can be recomputed: its inputs are available or recomputable whenever it may be needed
  position producer = 0;  // position that wrote its value; -1: none in this order
};

// All gaps, sorted by part, then by `last_use`. A gap within the order contains at least one operator; gaps
// at the start and the end are always listed.
std::vector<gap> find_gaps(const graph& g, const use_table& uses);

// Whether the forward pass writes the part and the backward pass reads it next.
bool spans_both_passes(const graph& g, const use_table& uses, const gap& x);

}  // namespace um
