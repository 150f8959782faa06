#include "backends/cuda/cuda_backend.hpp"

#include <unistd.h>

#include "backends/cuda/executor/executor.hpp"
#include "backends/cuda/operators.hpp"
#include "core/memory_plan.hpp"

namespace um {
namespace {

// Rates stay 0: planners take them from a machine file.
machine probe_machine(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  machine m;
  m.name = properties.name;
  m.source = "device properties";
  m.device_bytes = free;
  m.host_bytes =
      static_cast<byte_count>(sysconf(_SC_PHYS_PAGES)) * static_cast<byte_count>(sysconf(_SC_PAGE_SIZE));
  return m;
}

// Returns the operands of a part of an operator as tensors of their own.
std::vector<tensor> operands_as_tensors(const graph& g, const op& o, const box& part) {
  std::vector<tensor> all;
  for (const access& a : accesses_of(g, o, part)) all.push_back(part_of(g.tensors[a.tensor], a.where));
  return all;
}

// Fills an operand with values that it may hold: numbers, or zeros where elements are classes or positions.
void fill_for_timing(session& gpu, const tensor& t, std::byte* at, std::uint32_t seed) {
  if (is_floating(t.type))
    return kernels::fill_random(gpu.compute(), at, element_count(t.shape), t.type, seed);
  check(cudaMemsetAsync(at, 0, bytes_of(t), gpu.compute().stream));
}

// Binds an engine to operands in scratch memory that do not overlap.
kernel_call bind_for_timing(session& gpu, const engine& chosen, const std::vector<tensor>& operands) {
  const auto room_for = [](const tensor& t) { return round_up(bytes_of(t), arena_alignment); };
  byte_count bytes = 0;
  for (const tensor& t : operands) bytes += room_for(t);
  std::byte* at = gpu.random_scratch(bytes + chosen.choice.workspace_bytes);
  bound_operands bound{{}, at + bytes};
  for (const tensor& t : operands) {
    fill_for_timing(gpu, t, at, static_cast<std::uint32_t>(bound.data.size()) + 1);
    bound.data.push_back(at);
    at += room_for(t);
  }
  return chosen.bind(bound);
}

class cuda_backend final : public backend {
 public:
  cuda_backend(int device, const cuda_options& options) : session_(device, options) {}

  machine describe() override { return probe_machine(session_.device()); }

  profile measure_operators(const graph& g) override {
    profile costs;
    for (op_id o = 0; o < g.ops.size(); ++o) {
      op_id before = 0;
      while (before < o && !same_work(g, g.ops[before], g.ops[o])) ++before;
      costs.push_back(before < o ? costs[before] : measure_cost(g, g.ops[o]));
    }
    session_.release_scratch();
    return costs;
  }

  std::vector<op_cost> measure_operators(const graph& g, std::span<const compute> computes) override {
    std::vector<op_cost> costs;
    for (const compute& c : computes) costs.push_back(cost_of(g, c));
    session_.release_scratch();
    return costs;
  }

  execution execute(const graph& g, const execution_plan& plan, const execution_request& request) override {
    session_.release_scratch();
    return executor(session_, g, plan).run(request);
  }

 private:
  op_cost measure_cost(const graph& g, const op& o) {
    const engine chosen = choose_engine(session_, g, o, {}, 16, session_.options().workspace_cap);
    return cost_of(chosen.choice,
                   measure_time(session_, bind_for_timing(session_, chosen, operands_as_tensors(g, o, {}))));
  }

  // The time was measured when this or another process chose the engine.
  op_cost cost_of(const graph& g, const compute& c) {
    const op o = operator_of(g, c);
    const engine chosen =
        choose_engine(session_, g, o, c.part, 16, std::min(c.workspace, session_.options().workspace_cap));
    const bool is_own = chosen.choice.time == 0;
    return cost_of(chosen.choice, is_own ? time_own_kernel(g, o, c.part, chosen) : chosen.choice.time);
  }

  static op_cost cost_of(const engine_choice& choice, nanoseconds time) {
    return {time, choice.workspace_bytes, choice.engine, choice.parts};
  }

  // umbench's own kernels have no alternatives. They are timed and cached like engines.
  nanoseconds time_own_kernel(const graph& g, const op& o, const box& part, const engine& chosen) {
    const std::string key = session_.engine_key(signature_of(g, o, part));
    if (const auto known = session_.engines().find(key)) return known->time;
    constexpr int before = 1, counted = 5;
    engine_choice timed = chosen.choice;
    timed.time = median_time(session_, bind_for_timing(session_, chosen, operands_as_tensors(g, o, part)),
                             before, counted);
    return session_.engines().store(key, timed).time;
  }

  session session_;
};

}  // namespace

std::unique_ptr<backend> open_cuda(int device, const cuda_options& options) {
  return std::make_unique<cuda_backend>(device, options);
}

}  // namespace um
