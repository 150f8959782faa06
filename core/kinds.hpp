// Properties of each kind of operator: how a cut along an axis narrows each operand (core/access.hpp turns
// that into regions), and how many floating-point operations the operator takes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph.hpp"

namespace um::cutting {

enum class operand_cut : std::uint8_t {
  refused,  // the operator cannot be cut along this axis
  whole,
  part,      // the same range along the same axis
  channels,  // a range of the reduction selects the same range of the second extent
  filters,   // a range of the channels, or of the reduction, selects the same range of the first extent
  windows,   // input rows under the windows of the part's output rows
  overlapping_windows,  // output rows whose windows overlap the part's input rows
  sum,                  // the whole tensor: the first part writes it, later ones add to it
};

// For one operand: the effect of a cut along each axis.
struct cuts_by_axis {
  operand_cut batch, channel, row, reduction = operand_cut::refused;
};

// The rules of all operands. `cut_tensor`: the operand whose extents are divided into parts.
struct cut_rules {
  std::vector<cuts_by_axis> inputs, outputs;
  tensor_id cut_tensor = 0;
};

cut_rules cut_rules_of(const op& o);

}  // namespace um::cutting

namespace um {

// Floating-point operations of the whole operator; multiply and add count as two. Throws std::overflow_error,
// naming the operator, if there are 2^64 or more.
std::uint64_t flops_of(const graph& g, const op& o);

}  // namespace um
