// What the kernels share: grids that fill the device, 16-byte access, block-wide sums.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cuda/kernels.hpp"
#include "um_allocators/check.hpp"

namespace um::kernels {

inline constexpr int block_threads = 256;
inline constexpr int blocks_per_multiprocessor = 8;  // 2048 threads: full occupancy

// Enough blocks for `items`, one per thread, but no more than are resident at once: kernels stride.
inline int grid_for(launch_site where, std::int64_t items) {
  const std::int64_t wanted = (items + block_threads - 1) / block_threads;
  const std::int64_t most = std::int64_t{where.multiprocessors} * blocks_per_multiprocessor;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

template <class... Pointers>
bool aligned_16(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// 32-bit index arithmetic is several times cheaper; the margin keeps index + stride from wrapping.
inline bool fits_32_bits(std::int64_t count) {
  return count < std::int64_t{1} << 31;
}

template <class Index>
__device__ Index thread_index() {
  return static_cast<Index>(blockIdx.x) * block_threads + threadIdx.x;
}
template <class Index>
__device__ Index grid_stride() {
  return static_cast<Index>(gridDim.x) * block_threads;
}

// Sum over the block in a fixed order; every thread must call, thread 0 gets the sum.
__device__ inline float block_sum(float value) {
  __shared__ float of_warp[block_threads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffU, value, distance);
  }
  __syncthreads();  // of_warp may still be read from a sum before
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
  float most = of_warp[0];
  for (float part : of_warp) most = fmaxf(most, part);
  return most;
}

}  // namespace um::kernels
