#include "backends/cuda/cuda_backend.hpp"

#include <unistd.h>

#include <utility>

#include "backends/cuda/executor.hpp"
#include "backends/cuda/operators.hpp"

namespace um {
namespace {

std::uint64_t attribute(cudaDeviceAttr what, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, what, device));
  return static_cast<std::uint64_t>(value);
}

// Lanes of single-precision arithmetic per multiprocessor, by compute capability (CUDA C++
// Programming Guide, "Arithmetic Instructions"); 0 where not listed.
std::uint64_t fp32_lanes(const cudaDeviceProp& p) {
  switch (p.major * 10 + p.minor) {
    case 70:
    case 72:
    case 75:
    case 80:
      return 64;
    case 86:
    case 87:
    case 89:
    case 90:
    case 100:
    case 103:
    case 120:
    case 121:
      return 128;
    default:
      return 0;
  }
}

machine machine_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  constexpr std::uint64_t kilo = 1000;
  machine m;
  m.name = properties.name;
  m.source = "device properties; rates that they do not tell are 0";
  m.device_bytes = free;
  m.host_bytes =
      static_cast<byte_count>(sysconf(_SC_PHYS_PAGES)) * static_cast<byte_count>(sysconf(_SC_PAGE_SIZE));
  const std::uint64_t core_hz = attribute(cudaDevAttrClockRate, device) * kilo;
  const std::uint64_t memory_hz = attribute(cudaDevAttrMemoryClockRate, device) * kilo;
  const std::uint64_t bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  m.fp32_flops_per_s =
      2 * fp32_lanes(properties) * attribute(cudaDevAttrMultiProcessorCount, device) * core_hz;
  m.device_bytes_per_s = 2 * memory_hz * bus_bytes;  // two transfers a clock
  return m;
}

byte_count room_for(const graph& g, const op& o) {
  byte_count bytes = 0;
  for (const auto* side : {&o.in, &o.out}) {
    for (const tensor_id t : *side) bytes += round_up(bytes_of(g.tensors[t]), arena_alignment);
  }
  return bytes;
}

// What an operand may hold: numbers of its type; zeros where a number says a class or a position.
void fill_for_timing(session& on, const tensor& t, std::byte* at, std::uint32_t seed) {
  if (is_floating(t.type)) return kernels::fill(on.compute(), at, elements(t.shape), t.type, seed);
  check(cudaMemsetAsync(at, 0, bytes_of(t), on.compute().stream));
}

class cuda_backend final : public backend {
 public:
  cuda_backend(int device, const cuda_options& options) : on_(device, options) {}

  machine describe() override { return machine_of(on_.device()); }

  profile measure(const graph& g) override {
    profile costs;
    for (op_id o = 0; o < g.ops.size(); ++o) {
      op_id before = 0;
      while (before < o && !same_work(g, g.ops[before], g.ops[o])) ++before;
      costs.push_back(before < o ? costs[before] : measure(g, g.ops[o]));
    }
    on_.release_scratch();
    return costs;
  }

  execution execute(const graph& g, const execution_plan& plan, const execution_request& how) override {
    on_.release_scratch();
    return executor(on_, g, plan).run(how);
  }

 private:
  op_cost measure(const graph& g, const op& o) {
    const engine chosen = choose_engine(on_, g, o, {}, 16, on_.options().workspace_cap);
    const byte_count workspace = chosen.choice.workspace_bytes;
    const byte_count operands = room_for(g, o);
    std::byte* at = on_.scratch(operands + workspace);
    bound_operands bound{{}, at + operands};
    for (const auto* side : {&o.in, &o.out}) {
      for (const tensor_id t : *side) {
        fill_for_timing(on_, g.tensors[t], at, t + 1);
        bound.data.push_back(at);
        at += round_up(bytes_of(g.tensors[t]), arena_alignment);
      }
    }
    return {time_of(on_, chosen.bind(bound)), workspace, chosen.choice.engine, chosen.choice.parts};
  }

  session on_;
};

}  // namespace

std::unique_ptr<backend> open_cuda(int device, const cuda_options& options) {
  return std::make_unique<cuda_backend>(device, options);
}

}  // namespace um
