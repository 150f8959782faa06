// Copies of boxes of bytes: runs at equal distances.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace um::kernels {

// A box has `depth` slices of `height` runs of `width` bytes. Pitches and slices are the distances in bytes
// from one run, and one slice, to the next. There are fewer than 2^31 runs.
struct byte_box {
  std::uint64_t width = 0, height = 1, depth = 1;
  std::uint64_t from_pitch = 0, from_slice = 0, to_pitch = 0, to_slice = 0;
};

// Copies on the device, or between it and pinned memory, asynchronously on `stream`. Short runs are copied by
// a kernel, since copy engines take them one by one, others by cudaMemcpy3DAsync.
void copy_box(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& box);

// Each names its way. The engine needs one call if slices are whole numbers of runs apart, else one call a
// slice.
void copy_box_by_kernel(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& box);
void copy_box_by_engine(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& box);

}  // namespace um::kernels
