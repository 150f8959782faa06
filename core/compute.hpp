// The compute action, and the operator that it runs. A recomputation may run a cheaper operator.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "core/access.hpp"

namespace um {

// Workspace as in the profile, or as the backend chooses for a part.
inline constexpr byte_count as_profiled = std::numeric_limits<byte_count>::max();
struct compute {  // again for the same operator: recomputation; of a part: tiling
  op_id what = 0;
  box part;
  byte_count workspace = as_profiled;  // else a limit: the fastest engine within it is used
  bool again = false;  // only its first output, computed from the inputs and the other outputs
  friend bool operator==(const compute&, const compute&) = default;
};

// What computes the first output of `o` again from its inputs and its other outputs, where that takes less
// than `o` does: a batch normalisation applied with the statistics that it found the first time. The same
// bits. It takes no workspace and nothing's place; cut like `o`, it works on the same parts.
std::optional<op> repetition_of(const op& o);

// The operator that a compute runs: the original or, with `again`, its cheaper recomputation. Throws
// std::invalid_argument, naming the operator, if it has none.
op operator_of(const graph& g, const compute& c);

// The accesses of the operator that `c` runs.
std::vector<access> accesses_of(const graph& g, const compute& c);

// `c` as a recomputation, when all outputs but the first are available.
compute repeated(const graph& g, compute c);

// The share of the operator's time that its recomputation takes, estimated by the bytes that both move.
double share_of_repetition(const graph& g, const op& o);

}  // namespace um
