// Copies between managed memory on the device and pinned memory, which leave the rest of the device to
// others. The driver copies managed memory with a kernel that fills the device; these copies take four
// blocks. On compute capability 9.0 one thread of each block keeps many bulk copies through shared memory in
// flight, so that it works beside kernels that keep device memory busy. It limits their rate: a copy that
// fills the link delays all other traffic, and discards beside it took eight times as long (docs/hints.md).
#include <algorithm>

#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/link_copy.hpp"

namespace um::kernels {
namespace {

constexpr int blocks = 4;
constexpr int plain_threads = 128, bulk_threads = 32;
constexpr std::size_t vector_bytes = 16;

__global__ void __launch_bounds__(plain_threads)
    copy_by_loads(const uint4* __restrict__ from, uint4* __restrict__ to, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const uint4 a = from[i], b = from[i + stride], c = from[i + 2 * stride], d = from[i + 3 * stride];
    to[i] = a;
    to[i + stride] = b;
    to[i + 2 * stride] = c;
    to[i + 3 * stride] = d;
  }
  for (; i < count; i += stride) to[i] = from[i];
}

constexpr std::uint32_t chunk_bytes = 4096;
constexpr std::uint32_t chunk_slots = 32;  // chunks that fit into the shared memory of a block
[[maybe_unused]] constexpr std::uint32_t chunks_in_flight =
    24;  // chunks that a block loads ahead; unused before 9.0
constexpr int held_bytes = chunk_slots * chunk_bytes;
// A block that fell behind its rate catches up at full speed, by at most this much.
[[maybe_unused]] constexpr std::uint64_t credit_ns = 3000;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void begin_load(std::byte* to, const std::byte* from, std::uint32_t bytes,
                           std::uint64_t* arrived) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrived)),
               "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(arrived))
      : "memory");
}

__device__ void wait_for_load(std::uint64_t* arrived, std::uint32_t phase) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(arrived)), "r"(phase)
        : "memory");
  }
}

__device__ void begin_store(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ std::uint64_t now_ns() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

#endif

// `bytes` is a multiple of 16. Block b copies chunks b, b + gridDim.x, ... and takes at least `chunk_ns` for
// each.
__global__ void __launch_bounds__(bulk_threads)
    copy_in_bulk(const std::byte* __restrict__ from, std::byte* __restrict__ to, std::size_t bytes,
                 std::uint32_t chunk_ns) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte shared[];
  const auto held = [&](std::size_t k) { return shared + k % chunk_slots * chunk_bytes; };
  __shared__ __align__(8) std::uint64_t arrived[chunk_slots];
  if (threadIdx.x != 0) return;
  for (std::uint64_t& a : arrived) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&a)));
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const std::size_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const std::size_t mine = chunks > blockIdx.x ? (chunks - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const auto offset = [&](std::size_t k) { return (blockIdx.x + k * gridDim.x) * std::size_t{chunk_bytes}; };
  const auto size = [&](std::size_t k) {
    return static_cast<std::uint32_t>(min(std::size_t{chunk_bytes}, bytes - offset(k)));
  };
  const auto load = [&](std::size_t k) {
    begin_load(held(k), from + offset(k), size(k), &arrived[k % chunk_slots]);
  };
  for (std::size_t k = 0; k < min(std::size_t{chunks_in_flight}, mine); ++k) load(k);
  std::uint64_t due = now_ns();
  for (std::size_t k = 0; k < mine; ++k) {
    wait_for_load(&arrived[k % chunk_slots], static_cast<std::uint32_t>(k / chunk_slots % 2));
    std::uint64_t now = now_ns();
    for (; now < due; now = now_ns()) __nanosleep(40);
    due = max(due, now - credit_ns) + chunk_ns;
    begin_store(to + offset(k), held(k), size(k));
    if (k + chunks_in_flight >= mine) continue;
    // The next load overwrites the slot of an earlier chunk, so the store of that chunk must have read it.
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(chunk_slots - chunks_in_flight) : "memory");
    load(k + chunks_in_flight);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

constexpr std::size_t round_up_to_vector(std::size_t bytes) {
  return (bytes + vector_bytes - 1) / vector_bytes * vector_bytes;
}

bool supports_bulk_copies() {
  int device = 0;
  check(cudaGetDevice(&device));
  return device_attribute(cudaDevAttrComputeCapabilityMajor, device) >= 9;
}

}  // namespace

void copy_over_link_by_loads(launch_site where, const void* from, void* to, std::size_t bytes) {
  launch(where, &copy_by_loads, blocks, plain_threads, static_cast<const uint4*>(from),
         static_cast<uint4*>(to), round_up_to_vector(bytes) / vector_bytes);
}

void copy_over_link(launch_site where, const void* from, void* to, std::size_t bytes,
                    std::uint64_t max_bytes_per_s) {
  if (!supports_bulk_copies()) return copy_over_link_by_loads(where, from, to, bytes);
  constexpr std::uint64_t second = 1'000'000'000;
  const std::uint64_t chunk_ns =
      max_bytes_per_s == 0 ? 0 : std::uint64_t{chunk_bytes} * blocks * second / max_bytes_per_s;
  launch_with(where, held_bytes, &copy_in_bulk, blocks, bulk_threads, static_cast<const std::byte*>(from),
              static_cast<std::byte*>(to), round_up_to_vector(bytes),
              static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_ns, 1'000'000)));
}

}  // namespace um::kernels
