#include <cmath>
#include <vector>

#include "backends/cuda/kernels/launch.cuh"
#include "um_allocators/arena.hpp"

namespace um::kernels {
namespace {

struct squares {
  double difference, reference;
};

// One pair of sums per thread: the host adds them up.
__global__ void __launch_bounds__(block_threads)
    sum_squares(const float* a, const float* b, std::int64_t count, squares* sums) {
  squares mine{0, 0};
  for (auto i = thread_index<std::int64_t>(); i < count; i += grid_stride<std::int64_t>()) {
    const double difference = static_cast<double>(a[i]) - b[i];
    mine.difference += difference * difference;
    mine.reference += static_cast<double>(b[i]) * b[i];
  }
  sums[thread_index<std::int64_t>()] = mine;
}

}  // namespace

double relative_difference(launch_site where, const float* a, const float* b, std::int64_t count) {
  const int grid = std::min(grid_for(where, count), where.multiprocessors);
  std::vector<squares> sums(static_cast<std::size_t>(grid) * block_threads);
  const arena partial = device_arena(sums.size() * sizeof(squares));
  auto* const data = reinterpret_cast<squares*>(partial.data());
  sum_squares<<<grid, block_threads, 0, where.stream>>>(a, b, count, data);
  check(cudaGetLastError());
  check(cudaMemcpyAsync(sums.data(), data, partial.bytes(), cudaMemcpyDeviceToHost, where.stream));
  check(cudaStreamSynchronize(where.stream));
  squares total{0, 0};
  for (const squares& s : sums) {
    total.difference += s.difference;
    total.reference += s.reference;
  }
  return std::sqrt(total.difference / total.reference);
}

}  // namespace um::kernels
