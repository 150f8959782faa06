// What convolutions in groups share, and those of one channel a group, 3 x 3, channels last: a thread keeps
// to four neighbouring channels, their filters in registers, and walks over pixels.
#pragma once

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/kernels/channels.cuh"
#include "backends/cuda/kernels/positions.cuh"

namespace um::kernels {

struct grouped {
  laid_out x, w, y;
  int stride_h, stride_w, pad_h, pad_w;
  int channels, filters;  // of a group
  bool relu;
};

inline grouped geometry_of(const grouped_convolution& of) {
  const convolution& how = of.how;
  return {laid_out(of.x, of.order),
          laid_out(of.w, of.order),
          laid_out(of.y, of.order),
          how.stride_h,
          how.stride_w,
          how.pad_h,
          how.pad_w,
          static_cast<int>(of.w.c),
          static_cast<int>(of.w.n / how.groups),
          how.relu};
}

namespace depthwise {

inline constexpr int neighbours = 4, side = 3, taps = side * side;
template <class T>
using channels_layout = layout<T, neighbours, memory_order::nhwc>;

inline bool applies(const grouped_convolution& of) {
  return of.order == memory_order::nhwc && of.w.c == 1 && of.w.n == of.how.groups && of.w.h == side &&
         of.w.w == side && of.x.c % neighbours == 0;
}

struct tap_rows {
  int pad_h, pad_w;
  divisor stride_h, stride_w;

  explicit tap_rows(const grouped& g)
      : pad_h(g.pad_h), pad_w(g.pad_w), stride_h(g.stride_h), stride_w(g.stride_w) {}
};

// Which element, of `extent` along an axis, a tap of the result at `at` meets; -1: none. A gradient's taps
// meet those that met it.
template <bool Backward>
__device__ int met_by(int at, int tap, int pad, const divisor& stride, int extent) {
  int met = at * static_cast<int>(stride.by) - pad + tap;
  if constexpr (Backward) {
    const int apart = at + pad - tap;
    auto whole = static_cast<std::uint32_t>(max(apart, 0));
    const bool between = stride.split(whole) != 0;
    met = apart < 0 || between ? -1 : static_cast<int>(whole);
  }
  return met >= 0 && met < extent ? met : -1;
}

// The neighbours that a result's taps meet; zeros outside.
template <class T, bool Backward>
__device__ void take(const laid_out& of, const tap_rows& axes, const T* from, std::int64_t channel,
                     const dims& at, bits<T, neighbours> (&taken)[taps]) {
  int rows[side], columns[side];
#pragma unroll
  for (int i = 0; i < side; ++i) {
    rows[i] =
        met_by<Backward>(static_cast<int>(at.h), i, axes.pad_h, axes.stride_h, static_cast<int>(of.shape.h));
    columns[i] =
        met_by<Backward>(static_cast<int>(at.w), i, axes.pad_w, axes.stride_w, static_cast<int>(of.shape.w));
  }
  const T* const image = from + at.n * of.stride.n + channel;
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) {
    const int row = rows[tap / side], column = columns[tap % side];
    if (row >= 0 && column >= 0)
      taken[tap] = load<neighbours>(image + row * of.stride.h + column * of.stride.w);
  }
}

// y of x or, Backward, dx of dy.
template <class T, bool Backward>
__global__ void __launch_bounds__(block_threads)
    convolve(grouped g, tap_rows axes, position_finder<std::uint32_t> find, std::int64_t positions,
             const T* from, const T* w, const float* b, T* to) {
  const std::int64_t channel = channel_of_thread<channels_layout<T>>();
  const laid_out &source = Backward ? g.y : g.x, &result = Backward ? g.x : g.y;
  if (channel >= result.shape.c) return;
  float filter[taps][neighbours], bias[neighbours] = {};
#pragma unroll
  for (int i = 0; i < neighbours; ++i) {
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) filter[tap][i] = value_at(w + (channel + i) * taps + tap);
  }
  if (b != nullptr) load_channels(b + channel, bias);
  const share_of_block share(positions);
  for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
    const dims at = find(static_cast<std::uint32_t>(share.begin + local));
    bits<T, neighbours> taken[taps] = {};
    take<T, Backward>(source, axes, from, channel, at, taken);
    float sum[neighbours] = {};
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
      float v[neighbours];
      unpack<T, neighbours>(taken[tap], v);
#pragma unroll
      for (int i = 0; i < neighbours; ++i) sum[i] = fmaf(v[i], filter[tap][i], sum[i]);
    }
#pragma unroll
    for (int i = 0; i < neighbours; ++i) {
      sum[i] += bias[i];
      if (g.relu) sum[i] = sum[i] > 0.0F ? sum[i] : 0.0F;
    }
    store<neighbours>(to + result.at(at.n, channel, at.h, at.w), pack<T, neighbours>(sum));
  }
}

struct filter_sums {
  float of[taps] = {};
  __device__ static filter_sums plus(const filter_sums& a, const filter_sums& b) {
    filter_sums both;
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) both.of[tap] = a.of[tap] + b.of[tap];
    return both;
  }
};

template <class T>
__global__ void __launch_bounds__(block_threads)
    sum_products(grouped g, tap_rows axes, position_finder<std::uint32_t> find, std::int64_t positions,
                 const T* x, const T* dy, filter_sums* partial) {
  const std::int64_t channel = channel_of_thread<channels_layout<T>>();
  filter_sums mine[neighbours] = {};
  if (channel < g.x.shape.c) {
    const share_of_block share(positions);
    for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
      const dims at = find(static_cast<std::uint32_t>(share.begin + local));
      const bits<T, neighbours> gradients = load<neighbours>(dy + g.y.at(at.n, channel, at.h, at.w));
      bits<T, neighbours> taken[taps] = {};
      take<T, false>(g.x, axes, x, channel, at, taken);
      float d[neighbours];
      unpack<T, neighbours>(gradients, d);
#pragma unroll
      for (int tap = 0; tap < taps; ++tap) {
        float v[neighbours];
        unpack<T, neighbours>(taken[tap], v);
#pragma unroll
        for (int i = 0; i < neighbours; ++i) mine[i].of[tap] = fmaf(v[i], d[i], mine[i].of[tap]);
      }
    }
  }
  combine_block<channels_layout<T>>(mine, partial + blockIdx.y * g.x.shape.c, g.x.shape.c);
}

struct write_filter {
  float* dw;
  bool add;
  __device__ void operator()(std::int64_t channel, const filter_sums& total) const {
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
      float& target = dw[channel * taps + tap];
      target = add ? target + total.of[tap] : total.of[tap];
    }
  }
};

// Pixels of `over`, four blocks on each multiprocessor.
template <class T>
cover cover_of_pixels(int multiprocessors, const dims& over) {
  return cover_of<channels_layout<T>>(over.c, over.n * over.h * over.w, std::int64_t{multiprocessors} * 4, 4);
}
inline position_finder<std::uint32_t> finder_of_pixels(const dims& over) {
  return {{over.n, 1, over.h, over.w}, memory_order::nhwc};
}

template <class T, bool Backward>
void launch_convolve(launch_site where, const grouped_convolution& of, const T* from, const T* w,
                     const float* b, T* to) {
  const dims& result = Backward ? of.x : of.y;
  const cover c = cover_of_pixels<T>(where.multiprocessors, result);
  grouped g = geometry_of(of);
  if (Backward) g.relu = false;
  launch(where, &convolve<T, Backward>, c.grid, c.block, g, tap_rows(g), finder_of_pixels(result),
         c.positions, from, w, b, to);
}

inline std::size_t workspace_of(int multiprocessors, const grouped_convolution& of) {
  const cover c = cover_of_pixels<float>(multiprocessors, of.y);
  return c.grid.y * static_cast<std::size_t>(of.x.c) * sizeof(filter_sums);
}

template <class T>
void launch_filter(launch_site where, const grouped_convolution& of, const T* x, const T* dy, float* dw,
                   bool add, float* workspace) {
  const cover c = cover_of_pixels<T>(where.multiprocessors, of.y);
  const grouped g = geometry_of(of);
  auto* const partial = reinterpret_cast<filter_sums*>(workspace);
  launch(where, &sum_products<T>, c.grid, c.block, g, tap_rows(g), finder_of_pixels(of.y), c.positions, x, dy,
         partial);
  launch_combine(where, static_cast<const filter_sums*>(partial), of.x.c, c.grid.y, write_filter{dw, add});
}

}  // namespace depthwise
}  // namespace um::kernels
