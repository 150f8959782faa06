// What a kernel's source needs to be compiled for the CPU: included before the source itself. Threads run one
// after the other, so this is for kernels whose threads do without each other.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#undef __launch_bounds__
#define __launch_bounds__(...)

namespace um::kernels {

inline thread_local uint3 threadIdx{}, blockIdx{};
inline thread_local dim3 gridDim, blockDim;

using std::max;
using std::min;

inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}
inline float __uint_as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline float __ldg(const float* at) {
  return *at;
}
// Of kernels beside the emulated ones, which are not run.
inline float __shfl_down_sync(unsigned, float, int) {
  return NAN;
}
inline void __syncthreads() {}

namespace emulated {

template <class Kernel>
void for_each_thread(int blocks, int threads, Kernel kernel) {
  gridDim = dim3(static_cast<unsigned>(blocks));
  blockDim = dim3(static_cast<unsigned>(threads));
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) kernel();
  }
}

}  // namespace emulated
}  // namespace um::kernels
