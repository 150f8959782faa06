// From a plan to what a machine executes: every action becomes a step in a lane, with the steps
// of other lanes it must wait for and the addresses it works on. Hazards are kept per part of a
// tensor, so tiles pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/memory_plan.hpp"
#include "core/pack.hpp"
#include "core/planner.hpp"
#include "core/trace.hpp"

namespace um {

enum class space : std::uint8_t { device, managed, pinned };

struct address {
  space where = space::device;
  byte_count offset = 0;
};

// One operand of a compute: the region touched, and the address of the tensor's first element, also
// when the compute is a slice. Where only a later part is resident that address may lie before the
// arena: it is modulo 2^64, and comes out right once the offset of the region is added.
struct operand {
  access what;
  address at;
};

// A movement of one part: where it lies on the device side (a range of the managed arena for managed and
// twinned tensors, else of the device arena) and, for staged and twinned tensors, at home.
struct movement {
  range device;
  byte_count pinned_offset = 0;
};

inline constexpr std::int32_t no_step = -1;

struct step {
  action what;
  lane where = lane::compute;
  // For each lane, the last step of that lane that must have ended; no_step if none.
  std::array<std::int32_t, lane_count> after{no_step, no_step, no_step};
  residence home = residence::device;  // of the tensor moved (advise, prefetch, evict, discard)
  bool needed = true;                  // false: nothing to move (the home copy is still valid)
  std::vector<operand> operands;       // compute: inputs, then outputs
  std::vector<movement> moves;         // prefetch, evict, discard, advise
  std::vector<range> room;  // twinned: whole blocks of the managed arena to populate before the copies of
                            // a prefetch, or to discard after those of an evict
  byte_count workspace_offset = 0;  // compute: in the device arena
  byte_count workspace_bytes = 0;
  byte_count resident_bytes = 0;  // device memory in use after this step, in list order
};

// Peak-time composition of the footprint, for the record. Parts add up to `total`.
struct footprint_terms {
  byte_count parameters = 0, parameter_gradients = 0, activations = 0, activation_gradients = 0;
  byte_count inputs = 0, workspace = 0, fragmentation = 0;
  byte_count total = 0;
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
execution_plan lower(const problem& p, const memory_plan& plan, packer how = packer::best_fit);

// Where each tensor of a resident managed layout lies: the same offsets lower() gives managed
// tensors, for planners that think in addresses. One entry per tensor; bytes 0 if not managed.
std::vector<range> managed_layout(const problem& p, const memory_plan& plan, packer how);

// The footprint: what the plan with everything on the device needs, after packing.
footprint_terms footprint_of(const graph& g, const profile& costs, packer how = packer::best_fit);

}  // namespace um
