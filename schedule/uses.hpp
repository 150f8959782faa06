// What an order of computes touches: every part of every tensor, its uses in order, and the gaps between
// them, during which a planner may give up its room.
#pragma once

#include <cstdint>
#include <vector>

#include "core/planner.hpp"

namespace um {

using position = std::int32_t;  // an index into an order; -1: before the first, its size: after the last
using part_id = std::uint32_t;  // an index into use_table::parts

// Images [begin, end) of a tensor (of what is no batch: its first extent), between two neighbouring borders
// of the regions that an order touches.
struct tensor_part {
  tensor_id what = 0;
  std::int64_t begin = 0, end = 0;
  byte_count bytes = 0;  // in an arena: a multiple of arena_alignment
};

struct use {
  position at = 0;
  access_mode mode = access_mode::read;
};
struct touched_part {
  part_id which = 0;
  access_mode mode = access_mode::read;
};

struct use_table {
  std::vector<compute> order;
  std::vector<tensor_part> parts;         // by tensor, then by `begin`
  std::vector<part_id> first_part;        // per tensor, and one past the last
  std::vector<std::vector<use>> of_part;  // uses of each part, in order; read and written at once: a write
  std::vector<std::vector<touched_part>> of_position;  // parts that each position touches, each once
  // The same when a position is computed again, where that is another operator (core/compute.hpp); else
  // empty.
  std::vector<std::vector<touched_part>> of_repetition;
  // First position that writes a gradient, which ends the forward pass; the order's size if there is none.
  position loss = 0;

  position end() const { return static_cast<position>(order.size()); }
  const std::vector<touched_part>& touched_again(position at) const {
    const auto i = static_cast<std::size_t>(at);
    return of_repetition[i].empty() ? of_position[i] : of_repetition[i];
  }
};

// Which regions draw borders between parts: all that the order touches, or those that it writes, as in a plan
// (core/memory_plan.hpp, cells_of).
enum class borders_of : std::uint8_t { touched, written };

// Throws std::invalid_argument, naming the operator, where one cannot be cut as the order says.
use_table uses_of(const graph& g, std::vector<compute> order, borders_of cut = borders_of::touched);

// A part as actions name it.
box box_of(const graph& g, const tensor_part& part);

// A stretch between consecutive uses of a part. `last` is -1 before the first use of what starts at home
// (inputs, labels, parameters), `next` the order's size behind the last use of what must be kept.
struct gap {
  part_id part = 0;
  position last = 0, next = 0;
  bool at_home = false;   // a staged tensor's home holds the value without a copy
  bool again = false;     // it can be computed again: so can what that takes, or it is around by then
  position producer = 0;  // the position that wrote it; -1: none in this order
};

// By part, then by `last`; only those with at least one operator within, but those at the start and at the
// end always.
std::vector<gap> gaps_of(const graph& g, const use_table& uses);

// The forward pass made it, the backward pass of the same images reads it.
bool crosses_loss(const graph& g, const use_table& uses, const gap& x);

}  // namespace um
