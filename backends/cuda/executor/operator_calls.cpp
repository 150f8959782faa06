#include "backends/cuda/executor/operator_calls.hpp"

#include <stdexcept>
#include <utility>

#include "backends/cuda/operators.hpp"
#include "core/compute.hpp"

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

}  // namespace um
