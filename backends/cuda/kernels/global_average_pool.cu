#include "backends/cuda/kernels/channels.cuh"

namespace um::kernels {
namespace {

// Threads of a block where channels are last: `lanes` vectors of channels by `rows_of_block` pixels.
constexpr int lanes = 64, rows_of_block = 4;

// A block takes one sample and up to 64 vectors of its channels. Its row r takes pixels r, r + 4, ...
template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    average_pixels(const T* x, T* y, std::int64_t vectors, std::int64_t column_blocks, std::uint32_t pixels) {
  const std::int64_t sample = blockIdx.x / column_blocks;
  const std::int64_t vector = (blockIdx.x - sample * column_blocks) * lanes + threadIdx.x;
  float sums[N] = {};
  if (vector < vectors) {
    const T* const from = x + (sample * pixels * vectors + vector) * N;
#pragma unroll 8
    for (std::uint32_t p = threadIdx.y; p < pixels; p += rows_of_block) {
      float v[N];
      unpack<T, N>(load<N>(from + p * vectors * N), v);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += v[i];
    }
  }
  __shared__ float of_rows[rows_of_block][N][lanes];
#pragma unroll
  for (int i = 0; i < N; ++i) of_rows[threadIdx.y][i][threadIdx.x] = sums[i];
  __syncthreads();
  if (threadIdx.y != 0 || vector >= vectors) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    for (int r = 1; r < rows_of_block; ++r) sums[i] += of_rows[r][i][threadIdx.x];
    sums[i] /= static_cast<float>(pixels);
  }
  store<N>(y + (sample * vectors + vector) * N, pack<T, N>(sums));
}

template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    spread_pixels(const T* dy, T* dx, std::int64_t vectors, std::int64_t column_blocks,
                  std::uint32_t pixels) {
  const std::int64_t sample = blockIdx.x / column_blocks;
  const std::int64_t vector = (blockIdx.x - sample * column_blocks) * lanes + threadIdx.x;
  if (vector >= vectors) return;
  float v[N];
  unpack<T, N>(load<N>(dy + (sample * vectors + vector) * N), v);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] /= static_cast<float>(pixels);
  const bits<T, N> value = pack<T, N>(v);
  T* const to = dx + (sample * pixels * vectors + vector) * N;
  for (std::uint32_t p = threadIdx.y; p < pixels; p += rows_of_block) store<N>(to + p * vectors * N, value);
}

constexpr int planes_of_warp = 4;

__device__ std::int64_t first_plane_of_warp() {
  return (static_cast<std::int64_t>(blockIdx.x) * (block_threads / 32) + threadIdx.x / 32) * planes_of_warp;
}

// A warp takes four planes at once, since planes may be as small as 7x7.
template <class T>
__global__ void __launch_bounds__(block_threads)
    average_planes(const T* x, T* y, std::int64_t planes, std::uint32_t size) {
  const std::int64_t first = first_plane_of_warp();
  const int here = static_cast<int>(min(static_cast<std::int64_t>(planes_of_warp), planes - first));
  float sums[planes_of_warp] = {};
#pragma unroll 2
  for (std::uint32_t i = threadIdx.x % 32; i < size; i += 32) {
#pragma unroll
    for (int p = 0; p < planes_of_warp; ++p) {
      if (p >= here) break;
      float v[1];
      unpack<T, 1>(load<1>(x + (first + p) * size + i), v);
      sums[p] += v[0];
    }
  }
#pragma unroll
  for (int p = 0; p < planes_of_warp; ++p) {
    for (int distance = 16; distance > 0; distance /= 2) {
      sums[p] += __shfl_down_sync(0xffffffffU, sums[p], distance);
    }
    const float mean[1] = {sums[p] / static_cast<float>(size)};
    if (threadIdx.x % 32 == 0 && p < here) store<1>(y + first + p, pack<T, 1>(mean));
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    spread_planes(const T* dy, T* dx, std::int64_t planes, std::uint32_t size) {
  const std::int64_t first = first_plane_of_warp();
  const std::int64_t end = min(first + planes_of_warp, planes);
  for (std::int64_t plane = first; plane < end; ++plane) {
    float v[1];
    unpack<T, 1>(load<1>(dy + plane), v);
    v[0] /= static_cast<float>(size);
    const bits<T, 1> value = pack<T, 1>(v);
    for (std::uint32_t i = threadIdx.x % 32; i < size; i += 32) store<1>(dx + plane * size + i, value);
  }
}

bool lies_in_planes(const tensor_form& of) {
  return of.order == memory_order::nchw && of.shape.h * of.shape.w > 1;
}

// Calls launch(std::integral_constant N) with the widest vectors of channels.
template <class T, class Launch>
void with_vector(const tensor_form& of, bool aligned, Launch launch) {
  if (aligned && of.shape.c % vector_of<T> == 0) return launch(std::integral_constant<int, vector_of<T>>{});
  launch(std::integral_constant<int, 1>{});
}

// Averages all pixels of `from` or, if not, spreads its values over all pixels.
template <bool Averages>
void launch_average_or_spread(launch_site where, const void* from, void* to, const tensor_form& of) {
  const auto size = static_cast<std::uint32_t>(of.shape.h * of.shape.w);
  with_type(of.type, [&](auto zero) {
    using T = decltype(zero);
    const auto* const in = static_cast<const T*>(from);
    auto* const out = static_cast<T*>(to);
    if (lies_in_planes(of)) {
      const std::int64_t planes = of.shape.n * of.shape.c;
      const auto blocks = static_cast<unsigned>(divide_up(planes, block_threads / 32 * planes_of_warp));
      return launch(where, Averages ? &average_planes<T> : &spread_planes<T>, blocks, block_threads, in, out,
                    planes, size);
    }
    with_vector<T>(of, aligned_to(16, from, to), [&](auto n) {
      const std::int64_t vectors = of.shape.c / n(), columns = divide_up(vectors, lanes);
      launch(where, Averages ? &average_pixels<T, n()> : &spread_pixels<T, n()>,
             static_cast<unsigned>(of.shape.n * columns), dim3(lanes, rows_of_block), in, out, vectors,
             columns, size);
    });
  });
}

}  // namespace

void global_average_pool(launch_site where, const void* x, void* y, const tensor_form& of) {
  launch_average_or_spread<true>(where, x, y, of);
}

void global_average_pool_backward(launch_site where, const void* dy, void* dx, const tensor_form& of) {
  launch_average_or_spread<false>(where, dy, dx, of);
}

}  // namespace um::kernels
