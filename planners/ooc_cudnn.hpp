// What ooc_cuDNN decides: where tensors lie, and into what parts each call goes.
#pragma once

#include <optional>
#include <vector>

#include "core/planner.hpp"
#include "planners/ooc_calls.hpp"

namespace um {

struct ooc_placement {
  std::vector<residence> home;   // staged or device
  std::vector<byte_count> left;  // per call: of `room`, beside what lies on the device while it runs
};
// First come, first served, never revised: inputs, labels and parameters, then what operators write, in
// order, as long as it is less than what is left of `most` bytes; the rest is at home in host memory. What
// has been used for the last time gives its bytes back. Tensors that a call alone touches have no place of
// their own.
ooc_placement place_first_come(const graph& g, const std::vector<ooc_call>& calls, byte_count room,
                               byte_count most);

// The parts of a call, in `left` bytes: operands at home three times (twice, once where there are two parts,
// one), what the call alone touches, and workspace once. Nothing if no division fits; `least` is then what
// the finest takes.
std::optional<std::vector<ooc_step>> divided(const problem& p, const ooc_call& call,
                                             const std::vector<residence>& home, byte_count left,
                                             byte_count& least);

// Parts of the batch go through as many calls as they can, one part after the other, so that what a call
// makes is there for the next one; what has no room is swapped, the furthest next use first. Throws
// infeasible where no number of parts fits `room`.
memory_plan plan_ooc_kept(const problem& p, byte_count room);

}  // namespace um
