// The decisions of ooc_cuDNN: which tensors stay on the device, and the parts of each call.
#pragma once

#include <optional>
#include <vector>

#include "core/planner.hpp"
#include "planners/ooc_calls.hpp"

namespace um {

struct ooc_placement {
  std::vector<residence> home;   // staged or device
  std::vector<byte_count> left;  // per call: bytes of `room` that resident tensors leave while it runs
  std::vector<std::optional<index_range>> touched;  // touched_ranges()
};
// Gives device memory to tensors, first come, first served: inputs, labels and parameters, then what
// operators write, in order. A tensor that is not smaller than what is left of `most` bytes is staged in host
// memory. A tensor returns its bytes after its last use. Tensors that only one call touches get no memory of
// their own.
ooc_placement place_first_come(const graph& g, const std::vector<ooc_call>& calls, byte_count room,
                               byte_count most);

// The parts of a call that fit `left` bytes. Staged operands count three times (twice with two parts, once
// with one); tensors of the call alone and workspace count once. Nothing if no division fits; `least` is then
// the memory of the finest division.
std::optional<std::vector<ooc_step>> steps_within(const problem& p, const ooc_call& call,
                                                  const ooc_placement& at, byte_count left,
                                                  byte_count& least);

// Runs each part of the batch through as many calls as possible, so that results stay on the device for the
// next call. Swaps what does not fit, the furthest next use first. Throws infeasible if no number of parts
// fits `room`.
memory_plan plan_ooc_kept(const problem& p, byte_count room);

}  // namespace um
