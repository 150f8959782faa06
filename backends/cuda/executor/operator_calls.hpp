// Makes calls on a GPU from the computes of a plan.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/executor/plan_memory.hpp"
#include "backends/cuda/session.hpp"
#include "core/graph.hpp"
#include "core/lower.hpp"
#include "um_allocators/handle.hpp"

namespace um {

// Chooses an engine for each compute of the plan, and none for other steps. It is called before the arenas
// exist: candidates that the engine cache does not have need memory to be timed. Throws unsupported,
// out_of_memory, or std::invalid_argument for a plan whose workspaces are too small for this device's
// engines.
std::vector<engine> choose_engines(session& gpu, const graph& g, const execution_plan& plan);

// Binds the engine to the step's addresses, with the copies that gather its operands before and scatter them
// after it. Kernels make these copies, and reach managed and pinned memory as the engine does. `s` and
// `memory` must outlive the call.
kernel_call operator_call(const engine& chosen, const step& s, const plan_memory& memory,
                          cudaStream_t stream);

// Returns the costs of operators that the plan cuts, of engines that were chosen by time. umbench's own
// kernels are not.
std::vector<slice_cost> costs_of_cut_operators(const execution_plan& plan,
                                               const std::vector<engine>& engines);

// Work that is recorded once as a CUDA graph and launched by one call each time.
using recording = handle<cudaGraphExec_t, &cudaGraphExecDestroy>;

// Records the work that `issue` puts on `stream`, and on other streams between a fork from it and a join to
// it. Nothing runs. The recording is empty if something cannot be recorded (a library that waits or
// allocates): `stream` and the context are as before, and the work may be issued directly instead. Run
// kernels once before: loading them during a recording fails with some drivers.
recording record_graph(cudaStream_t stream, const std::function<void()>& issue);

}  // namespace um
