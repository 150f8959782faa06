// The decisions of ooc_cuDNN: which tensors stay on the device, and the parts of each call.
#pragma once

#include <optional>
#include <vector>

#include "core/planner.hpp"
#include "planners/ooc_calls.hpp"

namespace um {

struct ooc_placement {
  std::vector<residence> home;  // per tensor: staged or device
  std::vector<byte_count>
      free_bytes;  // per call: bytes of `room` that resident tensors leave free while it runs
  std::vector<std::optional<index_range>>
      touched;  // per tensor: the first and the last operator that touch it
};
// Gives device memory to tensors, first come, first served: inputs, labels and parameters, then the outputs
// of each operator in order. A tensor that does not fit in what is left of `most` bytes is staged in host
// memory. A tensor returns its bytes after its last use. Tensors that only one call touches get no memory of
// their own.
ooc_placement place_first_come(const graph& g, const std::vector<ooc_call>& calls, byte_count room,
                               byte_count most);

// Divides a call into parts that fit `free_bytes`. Staged operands count three times (twice with two parts,
// once with one); tensors that only the call touches and workspace count once. Returns nothing if no division
// fits; `min_bytes` is then the memory of the finest division.
std::optional<std::vector<ooc_step>> steps_within(const problem& p, const ooc_call& call,
                                                  const ooc_placement& at, byte_count free_bytes,
                                                  byte_count& min_bytes);

// Runs each part of the batch through as many calls as possible, so that results stay on the device for the
// next call. Swaps what does not fit, the furthest next use first. Throws infeasible if no number of parts
// fits `room`.
memory_plan plan_ooc_kept(const problem& p, byte_count room);

}  // namespace um
