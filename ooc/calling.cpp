#include "ooc/calling.hpp"

#include <algorithm>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/executor.hpp"
#include "um_allocators/arena.hpp"

namespace um::ooc {
namespace {

constexpr byte_count most_workspace = 512 * MiB;

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device));
  return device;
}

cuda_options brief() {
  cuda_options o;
  o.workspace_cap = most_workspace;
  o.brief_search = true;
  o.engine_cache = std::filesystem::temp_directory_path() / "umbench_ooc_engines.json";
  return o;
}

// Time of a copy = bytes / rate + a fixed time, from two sizes, as the paper calibrates.
struct copy_figures {
  std::uint64_t bytes_per_s = 0;
  nanoseconds fixed = 0;
};
copy_figures measured_copy(session& on, void* to, const void* from, byte_count large, byte_count small) {
  const auto time = [&](byte_count bytes) {
    return time_of(on,
                   [&] { check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, on.compute().stream)); });
  };
  const nanoseconds slow = time(large), fast = time(small);
  const auto more = static_cast<std::uint64_t>(std::max<nanoseconds>(slow - fast, 1));
  const std::uint64_t rate = (large - small) * 1'000'000'000 / more;
  return {rate, std::max<nanoseconds>(0, fast - time_at(small, rate))};
}

machine figures_of(session& on) {
  constexpr byte_count large = 16 * MiB, small = 4 * MiB;
  machine m = open_cuda(on.device(), on.options())->describe();
  const arena here = device_arena(large), home = pinned_arena(large);
  const copy_figures in = measured_copy(on, here.data(), home.data(), large, small),
                     out = measured_copy(on, home.data(), here.data(), large, small);
  m.link_to_device_bytes_per_s = in.bytes_per_s;
  m.link_to_host_bytes_per_s = out.bytes_per_s;
  m.link_both_bytes_per_s = in.bytes_per_s + out.bytes_per_s;
  m.copy_ns = std::max(in.fixed, out.fixed);
  m.launch_ns = 4'000;
  return m;
}

bool is_on_device(const std::byte* place) {
  cudaPointerAttributes what{};
  if (cudaPointerGetAttributes(&what, place) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  return what.type == cudaMemoryTypeDevice || what.type == cudaMemoryTypeManaged;
}

}  // namespace

calling::calling() : on_(current_device(), brief()), figures_(figures_of(on_)) {}

std::size_t calling::run(const one_call& call, byte_count budget) {
  check(cudaSetDevice(on_.device()));
  check(cudaDeviceSynchronize());  // whoever writes operands on a stream of his own
  if (budget == 0) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    budget = free / 10 * 9;
  }
  std::vector<bool> on_device;
  for (const std::byte* place : call.place) on_device.push_back(place != nullptr && is_on_device(place));
  const planned_call plan = planned(call, on_device, figures_, budget, most_workspace);
  executor(on_, call.g, plan.steps).run_given();
  return plan.parts;
}

}  // namespace um::ooc
