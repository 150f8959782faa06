// The compute action, and the operator that it runs. A recomputation may run a cheaper operator.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "core/access.hpp"

namespace um {

// The workspace of the profile or, for a part, the one that the backend chooses.
inline constexpr byte_count as_profiled = std::numeric_limits<byte_count>::max();
struct compute {  // the same operator again: recomputation; of a part: tiling
  op_id op = 0;
  box part;                            // of the operator's iteration domain
  byte_count workspace = as_profiled;  // otherwise the maximum: the fastest engine within it is used
  bool cheap_recompute = false;  // computes only the first output, from the inputs and the other outputs
  friend bool operator==(const compute&, const compute&) = default;
};

// A cheaper operator that recomputes the first output of `o`, with the same bits, from the inputs and other
// outputs of `o`: batch normalisation with the statistics of the first run. Nothing if there is none. It
// needs no workspace, does not work in place, and can be cut as `o` can.
std::optional<op> cheap_recomputation_of(const op& o);

// The operator that a compute runs: the original or, with `cheap_recompute`, the cheaper one. Throws
// std::invalid_argument, naming the operator, if it has none.
op operator_of(const graph& g, const compute& c);

// The accesses of the operator that `c` runs.
std::vector<access> accesses_of(const graph& g, const compute& c);

// `c` with `cheap_recompute` set, if the operator has a cheaper recomputation.
compute as_cheap_recomputation(const graph& g, compute c);

// Time of the recomputation as a share of the operator's time, estimated by the bytes that both move.
double cheap_recomputation_share(const graph& g, const op& o);

}  // namespace um
