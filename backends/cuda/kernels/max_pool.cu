#include "backends/cuda/kernels/launch.cuh"

namespace um::kernels {
namespace {

struct extents {
  int x_h, x_w, y_h, y_w, window, stride, pad;
};

// Window and stride as constants where they are the usual 3 and 2: divisions become shifts and the
// loops unroll. 0 stands for any.
template <int Window, int Stride>
__device__ void make_constant(extents& e) {
  if (Window != 0) e.window = Window;
  if (Stride != 0) e.stride = Stride;
}

extents extents_of(const pool_shape& shape) {
  return {static_cast<int>(shape.x.h),
          static_cast<int>(shape.x.w),
          static_cast<int>(shape.y.h),
          static_cast<int>(shape.y.w),
          shape.how.window,
          shape.how.stride,
          shape.how.pad};
}

// One thread per output element. The maximum's first occurrence in row order wins.
template <int Window, int Stride, class Count, class Index>
__global__ void __launch_bounds__(block_threads)
    pool(const float* x, float* y, Index* index, Count count, extents e) {
  make_constant<Window, Stride>(e);
  for (auto i = thread_index<Count>(); i < count; i += grid_stride<Count>()) {
    const int ow = static_cast<int>(i % e.y_w);
    const Count row = i / e.y_w;
    const int oh = static_cast<int>(row % e.y_h);
    const float* plane = x + static_cast<std::int64_t>(row / e.y_h) * e.x_h * e.x_w;
    const int top = oh * e.stride - e.pad;
    const int left = ow * e.stride - e.pad;
    const int h_begin = max(top, 0), h_end = min(top + e.window, e.x_h);
    const int w_begin = max(left, 0), w_end = min(left + e.window, e.x_w);
    float best = plane[static_cast<std::int64_t>(h_begin) * e.x_w + w_begin];
    int at = (h_begin - top) * e.window + (w_begin - left);
    for (int h = h_begin; h < h_end; ++h) {
      for (int w = w_begin; w < w_end; ++w) {
        const float value = plane[static_cast<std::int64_t>(h) * e.x_w + w];
        if (value > best) {
          best = value;
          at = (h - top) * e.window + (w - left);
        }
      }
    }
    y[i] = best;
    index[i] = static_cast<Index>(at);
  }
}

// One thread per input element gathers from every window over it, so no two threads add to one
// place and the order of the sum is fixed.
template <int Window, int Stride, class Count, class Index>
__global__ void __launch_bounds__(block_threads)
    pool_backward(const float* dy, const Index* index, float* dx, Count count, extents e) {
  make_constant<Window, Stride>(e);
  for (auto i = thread_index<Count>(); i < count; i += grid_stride<Count>()) {
    const int iw = static_cast<int>(i % e.x_w) + e.pad;
    const Count row = i / e.x_w;
    const int ih = static_cast<int>(row % e.x_h) + e.pad;
    const std::int64_t plane = static_cast<std::int64_t>(row / e.x_h) * e.y_h * e.y_w;
    const int oh_begin = ih < e.window ? 0 : (ih - e.window) / e.stride + 1;
    const int ow_begin = iw < e.window ? 0 : (iw - e.window) / e.stride + 1;
    const int oh_end = min(ih / e.stride + 1, e.y_h);
    const int ow_end = min(iw / e.stride + 1, e.y_w);
    float sum = 0.0F;
    for (int oh = oh_begin; oh < oh_end; ++oh) {
      for (int ow = ow_begin; ow < ow_end; ++ow) {
        const std::int64_t o = plane + static_cast<std::int64_t>(oh) * e.y_w + ow;
        const int here = (ih - oh * e.stride) * e.window + (iw - ow * e.stride);
        if (static_cast<int>(index[o]) == here) sum += dy[o];
      }
    }
    dx[i] = sum;
  }
}

// The common case, 2x2 windows side by side over whole rows of four: each thread reads two float4
// and writes two results.
bool is_tiling_by_two(const pool_shape& s) {
  return s.how.window == 2 && s.how.stride == 2 && s.how.pad == 0 && s.index_bytes == 1 && s.x.w % 4 == 0 &&
         s.x.h % 2 == 0 && s.y.h * 2 == s.x.h && s.y.w * 2 == s.x.w;
}

__device__ float first_of_four(float a, float b, float c, float d, unsigned char& at) {
  float best = a;
  at = 0;
  if (b > best) best = b, at = 1;
  if (c > best) best = c, at = 2;
  if (d > best) best = d, at = 3;
  return best;
}

// `count` pairs of outputs; `quads` float4 in a row of x, which are the pairs in a row of y.
template <class Count>
__global__ void __launch_bounds__(block_threads)
    pool_by_two(const float4* x, float2* y, uchar2* index, Count count, Count quads) {
  for (auto i = thread_index<Count>(); i < count; i += grid_stride<Count>()) {
    const Count row = i / quads;
    const float4* upper = x + row * 2 * quads + i % quads;
    const float4 u = upper[0];
    const float4 v = upper[quads];
    uchar2 at;
    float2 best;
    best.x = first_of_four(u.x, u.y, v.x, v.y, at.x);
    best.y = first_of_four(u.z, u.w, v.z, v.w, at.y);
    y[i] = best;
    index[i] = at;
  }
}

template <class Count>
__global__ void __launch_bounds__(block_threads)
    pool_by_two_backward(const float2* dy, const uchar2* index, float4* dx, Count count, Count quads) {
  for (auto i = thread_index<Count>(); i < count; i += grid_stride<Count>()) {
    const float2 g = dy[i];
    const uchar2 at = index[i];
    float4* upper = dx + i / quads * 2 * quads + i % quads;
    upper[0] = make_float4(at.x == 0 ? g.x : 0.0F, at.x == 1 ? g.x : 0.0F, at.y == 0 ? g.y : 0.0F,
                           at.y == 1 ? g.y : 0.0F);
    upper[quads] = make_float4(at.x == 2 ? g.x : 0.0F, at.x == 3 ? g.x : 0.0F, at.y == 2 ? g.y : 0.0F,
                               at.y == 3 ? g.y : 0.0F);
  }
}

// Calls launch(count) with a 32-bit count where that suffices.
template <class Launch>
void with_index_type(std::int64_t count, Launch launch) {
  if (fits_32_bits(count)) {
    launch(static_cast<std::uint32_t>(count));
  } else {
    launch(static_cast<std::uint64_t>(count));
  }
  check(cudaGetLastError());
}

bool is_three_by_two(const pool_shape& s) {
  return s.how.window == 3 && s.how.stride == 2;
}

template <class Index>
void forward_as(launch_site where, const float* x, float* y, Index* index, const pool_shape& shape) {
  const std::int64_t count = elements(shape.y);
  const int grid = grid_for(where, count);
  const extents e = extents_of(shape);
  with_index_type(count, [&](auto n) {
    if (is_three_by_two(shape)) {
      pool<3, 2><<<grid, block_threads, 0, where.stream>>>(x, y, index, n, e);
    } else {
      pool<0, 0><<<grid, block_threads, 0, where.stream>>>(x, y, index, n, e);
    }
  });
}

template <class Index>
void backward_as(launch_site where, const float* dy, const Index* index, float* dx, const pool_shape& shape) {
  const std::int64_t count = elements(shape.x);
  const int grid = grid_for(where, count);
  const extents e = extents_of(shape);
  with_index_type(count, [&](auto n) {
    if (is_three_by_two(shape)) {
      pool_backward<3, 2><<<grid, block_threads, 0, where.stream>>>(dy, index, dx, n, e);
    } else {
      pool_backward<0, 0><<<grid, block_threads, 0, where.stream>>>(dy, index, dx, n, e);
    }
  });
}

}  // namespace

void max_pool_forward(launch_site where, const float* x, float* y, void* index, const pool_shape& shape) {
  if (is_tiling_by_two(shape) && aligned_16(x, y, static_cast<const char*>(index))) {
    const std::int64_t count = elements(shape.y) / 2;
    return with_index_type(count, [&](auto n) {
      pool_by_two<<<grid_for(where, count), block_threads, 0, where.stream>>>(
          reinterpret_cast<const float4*>(x), reinterpret_cast<float2*>(y), static_cast<uchar2*>(index), n,
          static_cast<decltype(n)>(shape.x.w / 4));
    });
  }
  if (shape.index_bytes == 1) return forward_as(where, x, y, static_cast<std::uint8_t*>(index), shape);
  forward_as(where, x, y, static_cast<std::uint16_t*>(index), shape);
}

void max_pool_backward(launch_site where, const float* dy, const void* index, float* dx,
                       const pool_shape& shape) {
  if (is_tiling_by_two(shape) && aligned_16(dy, dx, static_cast<const char*>(index))) {
    const std::int64_t count = elements(shape.y) / 2;
    return with_index_type(count, [&](auto n) {
      pool_by_two_backward<<<grid_for(where, count), block_threads, 0, where.stream>>>(
          reinterpret_cast<const float2*>(dy), static_cast<const uchar2*>(index),
          reinterpret_cast<float4*>(dx), n, static_cast<decltype(n)>(shape.x.w / 4));
    });
  }
  if (shape.index_bytes == 1)
    return backward_as(where, dy, static_cast<const std::uint8_t*>(index), dx, shape);
  backward_as(where, dy, static_cast<const std::uint16_t*>(index), dx, shape);
}

}  // namespace um::kernels
