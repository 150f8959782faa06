// Copies of boxes of bytes: runs that lie at equal distances.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace um::kernels {

// `depth` slices of `height` runs of `width` bytes; distances in bytes from one run, and one slice, to the
// next, on either side. Fewer than 2^31 runs.
struct byte_box {
  std::uint64_t width = 0, height = 1, depth = 1;
  std::uint64_t from_pitch = 0, from_slice = 0, to_pitch = 0, to_slice = 0;
};

// On the device, or between it and pinned memory: asynchronous on `on`. A kernel where runs are short,
// which copy engines take one by one, and cudaMemcpy3DAsync elsewhere.
void copy_box(cudaStream_t on, std::byte* to, const std::byte* from, const byte_box& box);

// Either way by name, for tests and measurements. The engine takes slices that are whole numbers of runs
// apart in one call, others in one call each.
void copy_box_by_kernel(cudaStream_t on, std::byte* to, const std::byte* from, const byte_box& box);
void copy_box_by_engine(cudaStream_t on, std::byte* to, const std::byte* from, const byte_box& box);

}  // namespace um::kernels
