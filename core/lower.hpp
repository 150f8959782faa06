// Lowers a plan to steps that a machine executes: every action becomes a step in a lane, with the steps of
// other lanes that it waits for and the addresses that it uses. Hazards are tracked per part of a tensor, so
// that tiles pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/address_resolver.hpp"
#include "core/hazards.hpp"
#include "core/trace.hpp"
#include "core/verify.hpp"

namespace um {

// How a step is issued from the second iteration on. The first iteration is issued call by call, and so is
// every iteration if a timeline is requested or an engine cannot be recorded.
//
// by_call: each call by itself. as_operator: the kernels of a compute, recorded once, in one launch.
// by_stretch: a stretch of the compute lane (core/stretches.hpp), recorded once, in one launch.
enum class launch_method : std::uint8_t { by_call, as_operator, by_stretch };

struct placement;  // core/managed_map.hpp

// An action with everything decided: a backend only executes it.
struct step {
  action command;                // the plan's action
  lane in_lane = lane::compute;  // the lane that issues it
  // Per lane, the last step that must have ended; no_step if none.
  std::array<std::int32_t, lane_count> waits_for{no_step, no_step, no_step};
  residence home = residence::device;  // of advise, prefetch, evict, discard: residence of the tensor
  bool is_needed = true;               // false: nothing to copy, since the host copy is still valid
  std::vector<operand> operands;       // of a compute: inputs, then outputs
  std::vector<pitched_copy> gathers;   // of a compute: copies of operands that are not dense, made before it
  std::vector<pitched_copy> scatters;  // of a compute: copies made after it
  std::vector<pitched_copy> copies;    // of a prefetch or evict of a staged tensor
  std::vector<managed_target>
      managed_targets;  // of prefetch, evict, discard and advise: the ranges that they apply to
  // Twinned: whole blocks of the managed arena to populate before the copies of a prefetch, or to discard
  // after the copies of an evict.
  std::vector<range> populate_or_discard;
  byte_count workspace_offset = 0;  // of a compute: offset in the device arena
  byte_count workspace_bytes = 0;   // workspace of the operator, without gathered operands
  launch_method launch = launch_method::by_call;
  byte_count call_bytes = 0;  // of an evict of a managed tensor: maximum bytes per call; 0: one call
  nanoseconds pause_ns =
      0;  // of an evict of a managed tensor: wait before each call, so that other lanes' calls go first
  std::uint64_t copy_bytes_per_s = 0;  // of a twinned tensor: rate of the copies; 0: unknown
  byte_count resident_bytes = 0;       // device memory in use after this step if steps run in list order
};

struct execution_plan {
  std::vector<step> steps;
  std::vector<residence> home;    // one per tensor
  std::vector<address> at_start;  // one per tensor; meaningful for tensors that persist
  std::vector<address> at_end;    // one per tensor; meaningful for tensors that survive
  byte_count device_arena_bytes = 0;
  byte_count managed_arena_bytes = 0;
  byte_count pinned_arena_bytes = 0;
  // Maximum device memory in use: the device arena plus resident managed blocks. If the driver evicts
  // (evictor::driver), the whole managed arena counts.
  byte_count peak_device_bytes = 0;
  byte_count budget = 0;
  evictor evicted_by = evictor::none;  // who evicts managed memory
  footprint_terms terms;
};

// Packs each arena with `how` and lowers the plan. Throws infeasible if the device arena exceeds the budget,
// or if the plan evicts (evictor::plan) and managed memory ever exceeds what the budget leaves. Throws
// std::invalid_argument for a plan verified for another network, and for movements of managed memory that are
// not whole blocks, which verify_plan() does not check.
execution_plan lower(const problem& p, const verified_plan& plan, packer how = packers::searched);
// Verifies and lowers the plan. Throws std::invalid_argument if it has a defect.
execution_plan lower(const problem& p, const memory_plan& plan, packer how = packers::searched);
// Lowers with the addresses of a plan that differs only in movements of managed memory; for searches.
execution_plan lower(const problem& p, const memory_plan& plan, const placement& known);
execution_plan lower(const problem& p, const verified_plan& plan, const placement& known);

}  // namespace um
