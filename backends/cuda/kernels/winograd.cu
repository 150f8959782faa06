// Tiles are transformed at the points 0, 1, -1, 2, -2 and infinity. F(4 x 4, 3 x 3) forward and F(3 x 3, 4 x
// 4) for the filter gradient share the transform of the input.
#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/kernels/launch.cuh"

namespace um::kernels {
namespace {

struct input_transform {
  __device__ void operator()(const float (&d)[6], float (&t)[6]) const {
    t[0] = 4.0F * d[0] - 5.0F * d[2] + d[4];
    t[1] = (d[4] - 4.0F * d[2]) + (d[3] - 4.0F * d[1]);
    t[2] = (d[4] - 4.0F * d[2]) - (d[3] - 4.0F * d[1]);
    t[3] = (d[4] - d[2]) + 2.0F * (d[3] - d[1]);
    t[4] = (d[4] - d[2]) - 2.0F * (d[3] - d[1]);
    t[5] = 4.0F * d[1] - 5.0F * d[3] + d[5];
  }
};

// Of a filter, and of a tile of dy, which takes the place of the filter in the filter gradient.
struct filter_transform {
  __device__ void operator()(const float (&d)[3], float (&t)[6]) const {
    t[0] = d[0] / 4.0F;
    t[1] = (d[0] + d[1] + d[2]) / -6.0F;
    t[2] = (d[0] - d[1] + d[2]) / -6.0F;
    t[3] = (d[0] + 2.0F * d[1] + 4.0F * d[2]) / 24.0F;
    t[4] = (d[0] - 2.0F * d[1] + 4.0F * d[2]) / 24.0F;
    t[5] = d[2];
  }
  __device__ void operator()(const float (&d)[4], float (&t)[6]) const {
    const float even = d[0] + d[2], odd = d[1] + d[3];
    const float even2 = d[0] + 4.0F * d[2], odd2 = 2.0F * d[1] + 8.0F * d[3];
    t[0] = d[0] / 4.0F;
    t[1] = (even + odd) / -6.0F;
    t[2] = (even - odd) / -6.0F;
    t[3] = (even2 + odd2) / 24.0F;
    t[4] = (even2 - odd2) / 24.0F;
    t[5] = d[3];
  }
};

struct result_transform {
  __device__ void operator()(const float (&m)[6], float (&y)[4]) const {
    const float sum = m[1] + m[2], difference = m[1] - m[2];
    const float sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = difference + 2.0F * difference2;
    y[2] = sum + 4.0F * sum2;
    y[3] = difference + 8.0F * difference2 + m[5];
  }
  __device__ void operator()(const float (&m)[6], float (&y)[3]) const {
    const float sum = m[1] + m[2], difference = m[1] - m[2];
    const float sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = difference + 2.0F * difference2;
    y[2] = sum + 4.0F * sum2 + m[5];
  }
};

// Transforms rows, then columns.
template <int From, int To, class Transform>
__device__ void transform_tile(const float (&d)[From][From], float (&t)[To][To], Transform transform) {
  float half[To][From];
#pragma unroll
  for (int j = 0; j < From; ++j) {
    float column[From], out[To];
#pragma unroll
    for (int i = 0; i < From; ++i) column[i] = d[i][j];
    transform(column, out);
#pragma unroll
    for (int i = 0; i < To; ++i) half[i][j] = out[i];
  }
#pragma unroll
  for (int i = 0; i < To; ++i) transform(half[i], t[i]);
}

// The tiles of a tensor. A thread has one tile of one channel.
struct tile_map {
  divisor channels, rows, columns, tiles, segment_tiles;
  std::int64_t stride_n, stride_c, stride_h, stride_w;
  std::int64_t matrix;  // elements of [segment][channel][tile]
  std::uint32_t threads;
  int height, width, pad_h, pad_w;

  explicit tile_map(const winograd_tiles& of)
      : channels(of.shape.c),
        rows(of.rows),
        columns(of.columns),
        tiles(of.count()),
        segment_tiles(of.count() / of.segments),
        matrix(of.count() * of.shape.c),
        threads(static_cast<std::uint32_t>(of.count() * of.shape.c)),
        height(static_cast<int>(of.shape.h)),
        width(static_cast<int>(of.shape.w)),
        pad_h(static_cast<int>(of.pad_h)),
        pad_w(static_cast<int>(of.pad_w)) {
    const dims s = strides_of({{}, of.shape, dtype::f32, role::activation, of.order});
    stride_n = s.n, stride_c = s.c, stride_h = s.h, stride_w = s.w;
  }
};

struct tile {
  std::uint32_t channel;
  int top, left;
  std::int64_t pixel;   // index of the pixel (top, left), which may lie outside
  std::int64_t matrix;  // index of this tile in a matrix
};

template <bool ChannelsLast>
__device__ tile tile_of(std::uint32_t thread, int step, const tile_map& map) {
  tile at;
  std::uint32_t t = thread;
  if constexpr (ChannelsLast) {
    at.channel = map.channels.take_remainder(t);
    at.matrix = thread;
  } else {
    std::uint32_t channel = thread;
    t = map.tiles.take_remainder(channel);
    at.channel = channel;
    std::uint32_t segment = t;
    const std::uint32_t inside = map.segment_tiles.take_remainder(segment);
    at.matrix = (std::int64_t{segment} * map.channels.value + channel) * map.segment_tiles.value + inside;
  }
  at.left = static_cast<int>(map.columns.take_remainder(t)) * step - map.pad_w;
  at.top = static_cast<int>(map.rows.take_remainder(t)) * step - map.pad_h;
  at.pixel = t * map.stride_n + at.channel * map.stride_c + at.top * map.stride_h + at.left * map.stride_w;
  return at;
}

template <int N>
__device__ void load_tile(const float* x, const tile& at, const tile_map& map, float (&d)[N][N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const bool row_inside = at.top + i >= 0 && at.top + i < map.height;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const bool inside = row_inside && at.left + j >= 0 && at.left + j < map.width;
      d[i][j] = inside ? __ldg(x + at.pixel + i * map.stride_h + j * map.stride_w) : 0.0F;
    }
  }
}

__device__ void store_elements(float* to, std::int64_t stride, const float (&t)[6][6]) {
#pragma unroll
  for (int i = 0; i < 6; ++i) {
#pragma unroll
    for (int j = 0; j < 6; ++j) to[(i * 6 + j) * stride] = t[i][j];
  }
}
__device__ void load_elements(const float* from, std::int64_t stride, float (&t)[6][6]) {
#pragma unroll
  for (int i = 0; i < 6; ++i) {
#pragma unroll
    for (int j = 0; j < 6; ++j) t[i][j] = from[(i * 6 + j) * stride];
  }
}

// Transforms N x N pixels at every fourth pixel to 36 elements.
template <int N, bool ChannelsLast, class Transform>
__global__ void __launch_bounds__(block_threads)
    transform_tiles(const float* x, float* to, tile_map map, Transform transform) {
  for (auto i = thread_index<std::uint32_t>(); i < map.threads; i += grid_stride<std::uint32_t>()) {
    const tile at = tile_of<ChannelsLast>(i, 4, map);
    float d[N][N], t[6][6];
    load_tile(x, at, map, d);
    transform_tile(d, t, transform);
    store_elements(to + at.matrix, map.matrix, t);
  }
}

template <bool ChannelsLast, bool Vectors>
__global__ void __launch_bounds__(block_threads)
    transform_results(const float* from, float* y, const float* b, bool relu, tile_map map) {
  for (auto i = thread_index<std::uint32_t>(); i < map.threads; i += grid_stride<std::uint32_t>()) {
    const tile at = tile_of<ChannelsLast>(i, 4, map);
    float m[6][6], out[4][4];
    load_elements(from + at.matrix, map.matrix, m);
    transform_tile(m, out, result_transform{});
    const float bias = b == nullptr ? 0.0F : __ldg(b + at.channel);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (at.top + r >= map.height) break;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        out[r][c] += bias;
        if (relu) out[r][c] = fmaxf(out[r][c], 0.0F);
      }
      float* const row = y + at.pixel + r * map.stride_h;
      if constexpr (Vectors) {
        *reinterpret_cast<float4*>(row) = make_float4(out[r][0], out[r][1], out[r][2], out[r][3]);
      } else {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (at.left + c < map.width) row[c * map.stride_w] = out[r][c];
        }
      }
    }
  }
}

// One thread takes each (k, c).
__global__ void __launch_bounds__(block_threads)
    transform_filter(const float* w, float* to, std::uint32_t count, std::uint32_t inner, bool mirrored,
                     std::int64_t stride_k, std::int64_t stride_c, std::int64_t stride_h,
                     std::int64_t stride_w) {
  for (auto i = thread_index<std::uint32_t>(); i < count; i += grid_stride<std::uint32_t>()) {
    const std::uint32_t outer_channel = i / inner, inner_channel = i % inner;
    const float* const filter = mirrored ? w + inner_channel * stride_k + outer_channel * stride_c
                                         : w + outer_channel * stride_k + inner_channel * stride_c;
    float g[3][3], t[6][6];
#pragma unroll
    for (int r = 0; r < 3; ++r) {
#pragma unroll
      for (int s = 0; s < 3; ++s) {
        g[r][s] =
            mirrored ? filter[(2 - r) * stride_h + (2 - s) * stride_w] : filter[r * stride_h + s * stride_w];
      }
    }
    transform_tile(g, t, filter_transform{});
    store_elements(to + i, count, t);
  }
}

__global__ void __launch_bounds__(block_threads)
    transform_filter_gradient(const float* from, float* dw, std::uint32_t count, std::uint32_t channels,
                              int segments, bool add, std::int64_t stride_k, std::int64_t stride_c,
                              std::int64_t stride_h, std::int64_t stride_w) {
  for (auto i = thread_index<std::uint32_t>(); i < count; i += grid_stride<std::uint32_t>()) {
    float m[6][6] = {}, g[3][3];
    for (int s = 0; s < segments; ++s) {
      float part[6][6];
      load_elements(from + std::int64_t{s} * count + i, std::int64_t{count} * segments, part);
#pragma unroll
      for (int a = 0; a < 6; ++a) {
#pragma unroll
        for (int b = 0; b < 6; ++b) m[a][b] += part[a][b];
      }
    }
    transform_tile(m, g, result_transform{});
    float* const filter = dw + i / channels * stride_k + i % channels * stride_c;
#pragma unroll
    for (int r = 0; r < 3; ++r) {
#pragma unroll
      for (int s = 0; s < 3; ++s) {
        float& target = filter[r * stride_h + s * stride_w];
        target = add ? target + g[r][s] : g[r][s];
      }
    }
  }
}

template <int N, class Transform>
void launch_tiles(launch_site where, const float* x, float* to, const winograd_tiles& of,
                  Transform transform) {
  const tile_map map(of);
  const auto kernel = of.order == memory_order::nhwc ? &transform_tiles<N, true, Transform>
                                                     : &transform_tiles<N, false, Transform>;
  launch(where, kernel, grid_for(where, map.threads), block_threads, x, to, map, transform);
}

}  // namespace

void winograd_input(launch_site where, const float* x, float* to, const winograd_tiles& of) {
  launch_tiles<6>(where, x, to, of, input_transform{});
}

void winograd_output_gradient(launch_site where, const float* dy, float* to, const winograd_tiles& of) {
  launch_tiles<4>(where, dy, to, of, filter_transform{});
}

void winograd_output(launch_site where, const float* from, float* y, const float* b, bool relu,
                     const winograd_tiles& of) {
  const tile_map map(of);
  const bool vectors = of.shape.w % 4 == 0 && aligned_to(16, y);
  const auto kernel = of.order == memory_order::nhwc ? &transform_results<true, false>
                      : vectors                      ? &transform_results<false, true>
                                                     : &transform_results<false, false>;
  launch(where, kernel, grid_for(where, map.threads), block_threads, from, y, b, relu, map);
}

void winograd_filter(launch_site where, const float* w, float* to, const dims& shape, memory_order order,
                     bool mirrored) {
  const dims s = strides_of({{}, shape, dtype::f32, role::parameter, order});
  const auto count = static_cast<std::uint32_t>(shape.n * shape.c);
  const auto inner = static_cast<std::uint32_t>(mirrored ? shape.n : shape.c);
  launch(where, &transform_filter, grid_for(where, count), block_threads, w, to, count, inner, mirrored, s.n,
         s.c, s.h, s.w);
}

void winograd_filter_gradient(launch_site where, const float* from, float* dw, const dims& shape,
                              memory_order order, std::int64_t segments, bool add) {
  const dims s = strides_of({{}, shape, dtype::f32, role::parameter, order});
  const auto count = static_cast<std::uint32_t>(shape.n * shape.c);
  launch(where, &transform_filter_gradient, grid_for(where, count), block_threads, from, dw, count,
         static_cast<std::uint32_t>(shape.c), static_cast<int>(segments), add, s.n, s.c, s.h, s.w);
}

}  // namespace um::kernels
