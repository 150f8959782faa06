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

// Copies on the device, or between it and pinned memory, asynchronously on `on`: by a kernel if runs are
// short, since copy engines take them one by one, else by cudaMemcpy3DAsync.
void copy_box(cudaStream_t on, std::byte* to, const std::byte* from, const byte_box& box);

// Both ways by name. The engine needs one call for slices that are whole numbers of runs apart, else one
// call for each slice.
void copy_box_by_kernel(cudaStream_t on, std::byte* to, const std::byte* from, const byte_box& box);
void copy_box_by_engine(cudaStream_t on, std::byte* to, const std::byte* from, const byte_box& box);

}  // namespace um::kernels
