#include "backends/cuda/executor/operator_calls.hpp"

#include <stdexcept>
#include <utility>

#include "backends/cuda/operators.hpp"
#include "core/memory_plan.hpp"

namespace um {
namespace {

// Returns the largest of 16, 4, 2 and 1 bytes that every operand's address is a multiple of.
std::uint32_t alignment_of(const step& s) {
  byte_count all = 16;
  for (const operand& o : s.operands) all |= o.location.offset;
  for (const std::uint32_t multiple : {16U, 4U, 2U}) {
    if (all % multiple == 0) return multiple;
  }
  return 1;
}

using recorded_graph = handle<cudaGraph_t, &cudaGraphDestroy>;

// Ends the capture. Returns no graph if it is invalid.
recorded_graph end_capture(cudaStream_t stream) {
  cudaGraph_t raw = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream, &raw);
  recorded_graph graph(raw);
  if (status == cudaSuccess) return graph;
  static_cast<void>(cudaGetLastError());
  return {};
}

}  // namespace

std::vector<engine> choose_engines(session& gpu, const graph& g, const execution_plan& plan) {
  if (plan.managed_arena_bytes > 0) require_demand_paging(gpu.device());
  std::vector<engine> engines(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const step& s = plan.steps[i];
    const auto* const c = std::get_if<compute>(&s.command);
    if (c == nullptr) continue;
    const op o = operator_of(g, *c);
    engines[i] = choose_engine(gpu, g, o, c->part, alignment_of(s), s.workspace_bytes);
    if (engines[i].choice.workspace_bytes > s.workspace_bytes) {
      throw std::invalid_argument("operator " + o.name + " needs " +
                                  to_text(engines[i].choice.workspace_bytes) +
                                  " of workspace on this device, the plan gives it " +
                                  to_text(s.workspace_bytes) + ": make the plan with this device's profile");
    }
  }
  gpu.release_scratch();
  return engines;
}

kernel_call operator_call(const engine& chosen, const step& s, const plan_memory& memory,
                          cudaStream_t stream) {
  bound_operands operands{{}, memory.on_device(s.workspace_offset)};
  for (const operand& o : s.operands) operands.data.push_back(memory.at(o.location));
  kernel_call call = chosen.bind(operands);
  if (s.gathers.empty() && s.scatters.empty()) return call;
  return [&memory, &s, call = std::move(call), stream] {
    for (const pitched_copy& c : s.gathers) copy_box(memory, c, stream);
    call();
    for (const pitched_copy& c : s.scatters) copy_box(memory, c, stream);
  };
}

std::vector<slice_cost> costs_of_cut_operators(const execution_plan& plan,
                                               const std::vector<engine>& engines) {
  std::vector<slice_cost> all;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto* const c = std::get_if<compute>(&plan.steps[i].command);
    const engine_choice& chosen = engines[i].choice;
    if (c == nullptr || is_whole(c->part) || chosen.time == 0) continue;
    all.push_back({*c, {chosen.time, chosen.workspace_bytes, chosen.engine, chosen.parts}});
  }
  return all;
}

recording record_graph(cudaStream_t stream, const std::function<void()>& issue) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  bool whole = true;
  try {
    issue();
  } catch (const std::runtime_error&) {  // check() or a library's wrapper threw it
    whole = false;
  }
  const recorded_graph graph = end_capture(stream);
  if (!whole || !graph) return {};
  cudaGraphExec_t raw = nullptr;
  if (cudaGraphInstantiate(&raw, graph.get(), 0) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  recording made(raw);
  // Allocates the graph's device memory, outside of all times; that may fail.
  if (cudaGraphUpload(made.get(), stream) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  check(cudaStreamSynchronize(stream));
  return made;
}

}  // namespace um
