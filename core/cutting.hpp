// For each operand, how cutting the operator along an axis narrows it (core/access.hpp makes regions of it).
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph.hpp"

namespace um::cutting {

enum class touch : std::uint8_t {
  refused,  // the operator cannot be cut along this axis
  whole,
  part,      // the same elements along the same axis
  channels,  // a part of the reduction is a part of the second extent
  filters,   // a part of channels, or of the reduction, is a part of the first extent
  windows,   // input rows that the windows of the part's output rows cover
  meeting,   // output rows whose windows meet the part's input rows
  sum,       // everything, written by the first part and added to by later ones
};

// One operand's rule for each axis.
struct by_axis {
  touch batch, channel, row, reduction = touch::refused;
};

// `subject` is the operand whose extents are cut.
struct rules {
  std::vector<by_axis> in, out;
  tensor_id subject = 0;
};

rules rules_of(const op& o);

}  // namespace um::cutting
