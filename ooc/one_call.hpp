// One call of the library as a graph with operands that the caller keeps, and its plan.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/lower.hpp"
#include "planners/ooc_calls.hpp"

namespace um::ooc {

// The operators are one call. Tensors in a place of the caller's are inputs, parameters, gradients and
// outputs; the others live on the device for a part at a time.
struct one_call {
  graph g;
  ooc_call::kind what = ooc_call::kind::other;
  std::vector<std::byte*> place;  // one per tensor; nullptr for those without
};

struct planned_call {
  execution_plan steps;  // offsets in pinned memory are addresses: see at_given_places()
  std::size_t parts = 1;
};

// `on_device`, one per tensor: kernels reach its place. What is not is copied, part by part, through `budget`
// bytes of the device's memory. Operators take what a roofline of `on` says, and up to `workspace` bytes.
// Throws infeasible, with figures, where no division fits; std::invalid_argument for a graph that is not well
// formed.
planned_call planned(const one_call& call, const std::vector<bool>& on_device, const machine& on,
                     byte_count budget, byte_count workspace);

// Makes offsets in the pinned arena addresses in the caller's places, and the arena empty: based at address
// 0, they are where the tensors are.
void at_given_places(execution_plan& steps, const graph& g, std::span<std::byte* const> place);

}  // namespace um::ooc
