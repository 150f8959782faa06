// Copies to shared memory that nobody waits for at once (cp.async: compute capability 8.0 and later; launched
// on no other).
#pragma once

#include <cstdint>

namespace um::kernels {

// One float or four, or zeros; `to` is an address of shared memory, and both are aligned to what is copied.
template <int Floats>
__device__ void copy_async(std::uint32_t to, const float* from, bool valid) {
  static_assert(Floats == 1 || Floats == 4);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if constexpr (Floats == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0)
                 : "memory");
  }
#else
  __trap();
#endif
}

// For those of the thread that calls.
__device__ inline void wait_for_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  __trap();
#endif
}

}  // namespace um::kernels
