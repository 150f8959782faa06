// The action that computes, and what it runs: an operator or, the second time, what takes less.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "core/access.hpp"

namespace um {

// Workspace as in the profile, or a part's as the backend takes it.
inline constexpr byte_count as_profiled = std::numeric_limits<byte_count>::max();
struct compute {  // again for the same operator: recomputation; of a part: tiling
  op_id what = 0;
  box part;
  byte_count workspace = as_profiled;  // else the most that it may take: what is fastest within it is used
  bool again = false;                  // only its first output, from the others as well: its repetition
  friend bool operator==(const compute&, const compute&) = default;
};

// What computes the first output of `o` again from its inputs and its other outputs, where that takes less
// than `o` does: a batch normalisation applied with the statistics that it found the first time. The same
// bits. It takes no workspace and nothing's place; cut like `o`, it works on the same parts.
std::optional<op> repetition_of(const op& o);

// What a compute runs: the operator or, with `again`, its repetition. Throws std::invalid_argument, naming
// the operator, if it has none.
op operator_of(const graph& g, const compute& c);

// accesses_of() what it runs.
std::vector<access> accesses_of(const graph& g, const compute& c);

// `c` as it is done where all outputs but the first are at hand.
compute repeated(const graph& g, compute c);

// What part of the operator's time its repetition takes, by the bytes that either moves: statistics read x
// once more.
double share_of_repetition(const graph& g, const op& o);

}  // namespace um
