// Copies to shared memory that do not block (cp.async). Devices before compute capability 8.0 never run them.
#pragma once

#include <cstdint>

namespace um::kernels {

// Copies one float or four, or writes zeros. `to` is an address of shared memory. Both addresses are aligned
// to the size of the copy.
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

// Waits for the calling thread's own copies.
__device__ inline void wait_for_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  __trap();
#endif
}

}  // namespace um::kernels
