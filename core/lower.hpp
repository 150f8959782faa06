// From a plan to what a machine executes: every action becomes a step in a lane, with the steps
// of other lanes it must wait for and the addresses it works on. Hazards are kept per part of a
// tensor, so tiles pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/hazards.hpp"
#include "core/layout.hpp"
#include "core/trace.hpp"

namespace um {

// One operand of a compute: the region touched, and where it lies as a dense tensor of that region's shape.
struct operand {
  access what;
  address at;
};

// What a prefetch, discard or advice does to a range of the managed arena; for twinned tensors also where it
// lies at home.
struct movement {
  range device;
  byte_count pinned_offset = 0;
};

// Rows of `width` bytes, `height` of them in a slice and `depth` slices: one cudaMemcpy3DAsync. Pitches lie
// between the starts of rows, slice strides, which are multiples of them, between those of slices.
struct pitched_copy {
  address from, to;
  byte_count width = 0, height = 1, depth = 1;
  byte_count from_pitch = 0, to_pitch = 0, from_slice = 0, to_slice = 0;
};
constexpr byte_count bytes_of(const pitched_copy& c) {
  return c.width * c.height * c.depth;
}
// Of a region from where it lies in one dense tensor to where it lies in another of the same order; the bases
// are those of the tensors.
pitched_copy copy_of(const address& from_base, const tensor& from, const region& in_from,
                     const address& to_base, const tensor& to, const region& in_to);

struct step {
  action what;
  lane where = lane::compute;
  // For each lane, the last step of that lane that must have ended; no_step if none.
  std::array<std::int32_t, lane_count> after{no_step, no_step, no_step};
  residence home = residence::device;  // of the tensor moved (advise, prefetch, evict, discard)
  bool needed = true;                  // false: nothing to move (the home copy is still valid)
  std::vector<operand> operands;       // compute: inputs, then outputs
  std::vector<pitched_copy> gathers;   // compute: made before it, of operands that lie dense nowhere
  std::vector<pitched_copy> scatters;  // compute: made after it
  std::vector<pitched_copy> copies;    // prefetch and evict of staged tensors, one call each
  std::vector<movement> moves;         // prefetch, evict, discard, advise of managed and twinned ones
  std::vector<range> room;  // twinned: whole blocks of the managed arena to populate before the copies of
                            // a prefetch, or to discard after those of an evict
  byte_count workspace_offset = 0;     // compute: in the device arena
  byte_count workspace_bytes = 0;      // the operator's alone: what is gathered lies beside it
  byte_count call_bytes = 0;           // managed: evict in calls of at most so much; 0: in one
  std::uint64_t pace_bytes_per_s = 0;  // twinned: at which the copies go; 0: not known
  byte_count resident_bytes = 0;       // device memory in use after this step, in list order
};

struct execution_plan {
  std::vector<step> steps;
  std::vector<residence> home;    // one per tensor
  std::vector<address> at_start;  // one per tensor; meaningful for tensors that persist
  std::vector<address> at_end;    // one per tensor; meaningful for tensors that survive
  byte_count device_arena_bytes = 0;
  byte_count managed_arena_bytes = 0;
  byte_count pinned_arena_bytes = 0;
  // Largest device memory in use at once: device arena plus managed blocks resident. Where the
  // driver evicts by itself (plan made for pressure::driver) the managed arena counts whole.
  byte_count peak_device_bytes = 0;
  byte_count budget = 0;
  pressure under = pressure::none;
  footprint_terms terms;
};

// `how` places blocks in each arena. Throws std::invalid_argument for a plan that defect_of()
// would refuse, infeasible if the device arena exceeds the budget, or if `under` is
// pressure::plan and the managed memory in use ever exceeds what the budget leaves.
execution_plan lower(const problem& p, const memory_plan& plan, packer how = packers::searched);

}  // namespace um
