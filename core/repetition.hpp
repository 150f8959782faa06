// Computing an operator again: what a second time may take from the first.
#pragma once

#include <optional>
#include <vector>

#include "core/memory_plan.hpp"

namespace um {

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
