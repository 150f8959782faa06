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
  bool cheap_recompute = false;  // only its first output, computed from the inputs and the other outputs
  friend bool operator==(const compute&, const compute&) = default;
};

// A cheaper operator that computes the first output of `o` again, with the same bits, from the inputs and the
// other outputs of `o`: a batch normalisation applied with the statistics found the first time. Nothing if
// there is none. It needs no workspace, does not work in place, and can be cut as `o` can.
std::optional<op> cheap_recomputation_of(const op& o);

// The operator that a compute runs: the original or, with `cheap_recompute`, the cheaper one. Throws
// std::invalid_argument, naming the operator, if it has none.
op operator_of(const graph& g, const compute& c);

// The accesses of the operator that `c` runs.
std::vector<access> accesses_of(const graph& g, const compute& c);

// `c` with `cheap_recompute` set, if the operator has a cheaper recomputation.
compute as_cheap_recomputation(const graph& g, compute c);

// The share of the operator's time that its recomputation takes, estimated by the bytes that both move.
double cheap_recomputation_share(const graph& g, const op& o);

}  // namespace um
