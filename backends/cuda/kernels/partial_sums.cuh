// Adds up the partial filter gradients that blocks leave.
#pragma once

#include "backends/cuda/kernels/launch.cuh"

namespace um::kernels {

// A block adds up 32 neighbouring results, and each of its warps a share of the partials.
inline constexpr int sum_warps = 16;
static __global__ void __launch_bounds__(sum_warps* warp_threads)
    sum_partial_results(const float* partials, int count, int results, int depth, int depths, float* dw,
                        bool add) {
  __shared__ float of_warp[sum_warps][warp_threads];
  const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % 32;
  const int result = static_cast<int>(blockIdx.x) * warp_threads + lane;
  const std::int64_t stride = std::int64_t{results / depth} * depths;
  float sum = 0;
  if (result < results) {
    const float* from = partials + std::int64_t{result / depth} * depths + result % depth;
#pragma unroll 4
    for (int i = warp; i < count; i += sum_warps) sum += from[i * stride];
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || result >= results) return;
  float total = add ? dw[result] : 0.0F;
#pragma unroll
  for (int i = 0; i < sum_warps; ++i) total += of_warp[i][lane];
  dw[result] = total;
}

// dw[n][k] = [dw +] the sum of `count` partials in a fixed order. Row k of a partial has `depths` elements,
// of which `depth` count.
inline void sum_partials(launch_site where, const float* partials, int count, int results, int depth,
                         int depths, float* dw, bool add) {
  launch(where, sum_partial_results, dim3(static_cast<unsigned>(divide_up(results, warp_threads))),
         dim3(sum_warps * warp_threads), partials, count, results, depth, depths, dw, add);
}

}  // namespace um::kernels
