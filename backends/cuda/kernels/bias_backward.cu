// Two stages: `splits` partial sums per channel, then their sum in order. How the work is split
// depends on the shape alone, so the result does not depend on the device.
#include "backends/cuda/kernels/launch.cuh"

namespace um::kernels {
namespace {

// Enough blocks for any present device: one per channel and split.
constexpr std::int64_t blocks_wanted = 2048;

std::int64_t splits_of(const dims& shape) {
  const std::int64_t per_channel = shape.n * shape.h * shape.w;
  const std::int64_t for_device = std::max<std::int64_t>(blocks_wanted / shape.c, 1);
  const std::int64_t worthwhile = (per_channel + 1023) / 1024;
  return std::clamp<std::int64_t>(worthwhile, 1, for_device);
}

__device__ float sum_of(float v) {
  return v;
}
__device__ float sum_of(float4 v) {
  return (v.x + v.y) + (v.z + v.w);
}

// Block (c, s) sums its run of the channel's n * plane values.
template <class Value>
__global__ void __launch_bounds__(block_threads)
    partial_sums(const Value* dy, float* partial, std::uint32_t plane, std::int64_t per_channel) {
  const std::uint32_t c = blockIdx.x;
  const std::uint32_t channels = gridDim.x;
  const std::int64_t begin = per_channel * blockIdx.y / gridDim.y;
  const std::int64_t end = per_channel * (blockIdx.y + 1) / gridDim.y;
  // Position inside the channel as (sample, offset), carried along instead of divided out.
  std::int64_t sample = (begin + threadIdx.x) / plane;
  std::uint32_t offset = static_cast<std::uint32_t>((begin + threadIdx.x) % plane);
  float sum = 0.0F;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += block_threads) {
    sum += sum_of(dy[(sample * channels + c) * plane + offset]);
    offset += block_threads;
    while (offset >= plane) {
      offset -= plane;
      ++sample;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[std::int64_t{c} * gridDim.y + blockIdx.y] = sum;
}

// Planes of one element: a thread per channel, so that neighbours read neighbours.
__global__ void __launch_bounds__(block_threads)
    column_sums(const float* dy, float* partial, std::int64_t samples, std::int64_t channels) {
  const std::int64_t c = thread_index<std::int64_t>();
  if (c >= channels) return;
  const std::int64_t begin = samples * blockIdx.y / gridDim.y;
  const std::int64_t end = samples * (blockIdx.y + 1) / gridDim.y;
  float sum = 0.0F;
  for (std::int64_t n = begin; n < end; ++n) sum += dy[n * channels + c];
  partial[c * gridDim.y + blockIdx.y] = sum;
}

__global__ void __launch_bounds__(block_threads)
    total_sums(const float* partial, float* db, std::int64_t channels, std::int64_t splits, bool accumulate) {
  const std::int64_t c = thread_index<std::int64_t>();
  if (c >= channels) return;
  float sum = 0.0F;
  for (std::int64_t s = 0; s < splits; ++s) sum += partial[c * splits + s];
  db[c] = accumulate ? db[c] + sum : sum;
}

}  // namespace

std::size_t bias_backward_workspace(const dims& shape) {
  return static_cast<std::size_t>(shape.c * splits_of(shape)) * sizeof(float);
}

void bias_backward(launch_site where, const float* dy, float* db, const dims& shape, bool accumulate,
                   float* workspace) {
  const std::int64_t plane = shape.h * shape.w;
  const std::int64_t splits = splits_of(shape);
  const auto channels = static_cast<unsigned>(shape.c);
  const auto rows = static_cast<unsigned>(splits);
  const unsigned channel_blocks = (channels + block_threads - 1) / block_threads;
  if (plane == 1) {
    column_sums<<<dim3(channel_blocks, rows), block_threads, 0, where.stream>>>(dy, workspace, shape.n,
                                                                                shape.c);
  } else if (plane % 4 == 0 && aligned_16(dy)) {
    partial_sums<<<dim3(channels, rows), block_threads, 0, where.stream>>>(
        reinterpret_cast<const float4*>(dy), workspace, static_cast<std::uint32_t>(plane / 4),
        shape.n * plane / 4);
  } else {
    partial_sums<<<dim3(channels, rows), block_threads, 0, where.stream>>>(
        dy, workspace, static_cast<std::uint32_t>(plane), shape.n * plane);
  }
  check(cudaGetLastError());
  total_sums<<<channel_blocks, block_threads, 0, where.stream>>>(workspace, db, shape.c, splits, accumulate);
  check(cudaGetLastError());
}

}  // namespace um::kernels
