// From the computes of a plan to calls on a GPU.
#pragma once

#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/executor/plan_memory.hpp"
#include "backends/cuda/session.hpp"
#include "core/graph.hpp"
#include "core/lower.hpp"

namespace um {

// An engine for each compute of the plan, none for other steps. Called before the arenas exist: candidates
// that the engine cache does not have need memory to be timed. Throws unsupported, out_of_memory, or
// std::invalid_argument for a plan whose workspaces are too small for this device's engines.
std::vector<engine> choose_engines(session& on, const graph& g, const execution_plan& plan);

// The engine bound to the step's addresses, with the copies that gather its operands before and scatter them
// after it: by kernels, which reach managed and pinned memory as the engine does. `s` and `memory` must
// outlive the call.
kernel_call operator_call(const engine& chosen, const step& s, const plan_memory& memory, cudaStream_t on);

// The costs of operators that the plan cuts, of engines that were chosen by time; kernels of umbench are not.
std::vector<slice_cost> costs_of_cut_operators(const execution_plan& plan,
                                               const std::vector<engine>& engines);

}  // namespace um
