// From a plan to what a machine executes: every action becomes a step in a lane, with the steps
// of other lanes it must wait for and the addresses it works on. Hazards are kept per part of a
// tensor, so tiles pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/hazards.hpp"
#include "core/places.hpp"
#include "core/trace.hpp"
#include "core/verify.hpp"

namespace um {

// How a step is issued from the second iteration on; the first, and those of which a timeline is asked for or
// whose engines cannot be recorded, are issued by call.
//   by_call      each call by itself
//   as_operator  a compute: its kernels, recorded once, by one launch
//   by_stretch   a stretch of the compute lane (core/stretches.hpp), recorded once, by one launch
enum class launch_method : std::uint8_t { by_call, as_operator, by_stretch };

struct placement;  // core/placement.hpp

// An action with all decisions made: a backend executes it and decides nothing.
struct step {
  action what;
  lane where = lane::compute;  // the lane that issues it
  // For each lane, the last step of that lane that must have ended; no_step if none.
  std::array<std::int32_t, lane_count> after{no_step, no_step, no_step};
  residence home = residence::device;  // residence of the tensor moved (advise, prefetch, evict, discard)
  bool needed = true;                  // false: nothing to move (the home copy is still valid)
  std::vector<operand> operands;       // compute: inputs, then outputs
  std::vector<pitched_copy> gathers;   // compute: copies made before it, of operands that are not dense
  std::vector<pitched_copy> scatters;  // compute: copies made after it
  std::vector<pitched_copy> copies;    // prefetch and evict of staged tensors
  std::vector<movement> movements;     // prefetch, evict, discard, advise of managed and twinned ones
  std::vector<range> room;  // twinned: whole blocks of the managed arena to populate before the copies of a
                            // prefetch, or to discard after the copies of an evict
  byte_count workspace_offset = 0;  // compute: in the device arena
  byte_count workspace_bytes = 0;   // workspace of the operator, without gathered operands
  launch_method launch = launch_method::by_call;
  byte_count call_bytes = 0;  // managed: limit for one call of an evict; 0: one call
  nanoseconds pause_ns = 0;   // managed: wait before each call, so that calls of other lanes go first
  std::uint64_t copy_bytes_per_s = 0;  // twinned: rate of the copies; 0: not known
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
  pressure under = pressure::none;  // who evicts managed memory
  footprint_terms terms;
};

// `how` places blocks in each arena. Throws infeasible if the device arena exceeds the budget, or if `under`
// is pressure::plan and the managed memory in use ever exceeds what the budget leaves; std::invalid_argument
// for a plan that was verified for another network, and for movements of managed memory that are not whole
// blocks, which verified() does not check.
execution_plan lower(const problem& p, const verified_plan& plan, packer how = packers::searched);
// Verifies the plan first: throws std::invalid_argument for one that defect_of() refuses.
execution_plan lower(const problem& p, const memory_plan& plan, packer how = packers::searched);
// With the addresses of a plan that differs only in movements of managed memory; for searches.
execution_plan lower(const problem& p, const memory_plan& plan, const placement& known);
execution_plan lower(const problem& p, const verified_plan& plan, const placement& known);

}  // namespace um
