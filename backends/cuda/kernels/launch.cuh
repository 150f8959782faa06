// All kernels share these: grids, alignment, divisions by a constant, sums over a block.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "backends/cuda/kernels.hpp"
#include "um_allocators/check.hpp"

namespace um::kernels {

inline constexpr int block_threads = 256, warp_threads = 32;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// One thread takes each of `items`, but no more blocks are launched than are resident at once. Kernels
// stride.
inline int grid_for(launch_site where, std::int64_t items) {
  constexpr int blocks_per_multiprocessor = 8;  // 2048 threads: full occupancy
  const std::int64_t max_blocks = std::int64_t{where.multiprocessors} * blocks_per_multiprocessor;
  return static_cast<int>(std::clamp<std::int64_t>(divide_up(items, block_threads), 1, max_blocks));
}

// Null pointers count as aligned.
template <class... Pointers>
bool aligned_to(std::uintptr_t bytes, const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % bytes == 0) && ...);
}

// Divides numbers below 2^31 by a number that a launch fixes, by a multiplication and a shift (Granlund and
// Montgomery 1994).
struct divisor {
  std::uint32_t value = 1, factor = 0, shift = 0;

  explicit divisor(std::int64_t number) : value(static_cast<std::uint32_t>(number)) {
    if (value == 1) return;
    const auto power = 31U + static_cast<unsigned>(std::bit_width(value - 1));
    factor = static_cast<std::uint32_t>(((std::uint64_t{1} << power) + value - 1) / value);
    shift = power - 32;
  }
  __device__ std::uint32_t quotient(std::uint32_t dividend) const {
    return value == 1 ? dividend : __umulhi(dividend, factor) >> shift;
  }
  // Replaces `dividend` by the quotient and returns the remainder.
  __device__ std::uint32_t take_remainder(std::uint32_t& dividend) const {
    const std::uint32_t whole = dividend;
    dividend = quotient(whole);
    return whole - dividend * value;
  }
};

// Launches with that many bytes of dynamic shared memory.
#ifdef __CUDACC__
template <class... Parameters>
void launch_with(launch_site where, int shared_bytes, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                 std::type_identity_t<Parameters>... arguments) {
  if (shared_bytes > 0) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  }
  kernel<<<grid, block, static_cast<std::size_t>(shared_bytes), where.stream>>>(arguments...);
  check(cudaGetLastError());
}
#else  // tests/cuda/emulated.hpp runs kernels on the CPU
template <class... Parameters>
void launch_with(launch_site, int, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                 std::type_identity_t<Parameters>... arguments) {
  emulated::run(grid, block, [&] { kernel(arguments...); });
}
#endif
template <class... Parameters>
void launch(launch_site where, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::type_identity_t<Parameters>... arguments) {
  launch_with(where, 0, kernel, grid, block, arguments...);
}

template <class Index>
__device__ Index thread_index() {
  return static_cast<Index>(blockIdx.x) * block_threads + threadIdx.x;
}
template <class Index>
__device__ Index grid_stride() {
  return static_cast<Index>(gridDim.x) * block_threads;
}

// Sums up over the block in a fixed order. Every thread must call. Thread 0 gets the sum.
__device__ inline float block_sum(float value) {
  __shared__ float of_warp[block_threads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffU, value, distance);
  }
  __syncthreads();  // threads may still read of_warp for the sum before
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0F;
  if (threadIdx.x == 0) {
    for (float part : of_warp) sum += part;
  }
  return sum;
}

__device__ inline float block_max(float value) {
  __shared__ float of_warp[block_threads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_down_sync(0xffffffffU, value, distance));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = of_warp[0];
  for (float part : of_warp) largest = fmaxf(largest, part);
  return largest;
}

}  // namespace um::kernels
