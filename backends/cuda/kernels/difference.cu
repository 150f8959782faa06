#include <cmath>
#include <vector>

#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"
#include "um_allocators/arena.hpp"

namespace um::kernels {
namespace {

struct squares {
  double difference, reference;
};

// One pair of sums per thread: the host adds them up.
template <class T>
__global__ void __launch_bounds__(block_threads)
    sum_squares(const T* a, const T* b, std::int64_t count, squares* sums) {
  squares mine{0, 0};
  for (auto i = thread_index<std::int64_t>(); i < count; i += grid_stride<std::int64_t>()) {
    float left[1], right[1];
    unpack<T, 1>(load<1>(a + i), left);
    unpack<T, 1>(load<1>(b + i), right);
    const double reference = right[0], difference = left[0] - reference;
    mine.difference += difference * difference;
    mine.reference += reference * reference;
  }
  sums[thread_index<std::int64_t>()] = mine;
}

}  // namespace

double relative_difference(launch_site where, const void* a, const void* b, std::int64_t count, dtype type) {
  const int grid = std::min(grid_for(where, count), where.multiprocessors);
  std::vector<squares> sums(static_cast<std::size_t>(grid) * block_threads);
  const arena partial = device_arena(sums.size() * sizeof(squares));
  auto* const data = reinterpret_cast<squares*>(partial.data());
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    sum_squares<<<grid, block_threads, 0, where.stream>>>(static_cast<const T*>(a), static_cast<const T*>(b),
                                                          count, data);
    check(cudaGetLastError());
  });
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
