// Grouped convolutions share these. Depthwise 3 x 3 convolutions in nhwc: a thread owns four neighbouring
// channels, keeps their filters in registers, and walks over pixels.
#pragma once

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/kernels/channels.cuh"
#include "backends/cuda/kernels/positions.cuh"

namespace um::kernels {

struct grouped_geometry {
  tensor_strides x, w, y;
  int stride_h, stride_w, pad_h, pad_w;
  int channels, filters;  // of a group: channels of the input, and filters
  bool relu;
};

inline grouped_geometry geometry_of(const grouped_convolution& of) {
  const convolution& attributes = of.attributes;
  return {tensor_strides(of.x, of.order),
          tensor_strides(of.w, of.order),
          tensor_strides(of.y, of.order),
          attributes.stride_h,
          attributes.stride_w,
          attributes.pad_h,
          attributes.pad_w,
          static_cast<int>(of.w.c),
          static_cast<int>(of.w.n / attributes.groups),
          attributes.relu};
}

namespace depthwise {

inline constexpr int neighbours = 4, side = 3, taps = side * side;
template <class T>
using channels_layout = layout<T, neighbours, memory_order::nhwc>;

inline bool has_depthwise_kernel(const grouped_convolution& of) {
  return of.order == memory_order::nhwc && of.w.c == 1 && of.w.n == of.attributes.groups && of.w.h == side &&
         of.w.w == side && of.x.c % neighbours == 0;
}

struct tap_axes {
  int pad_h, pad_w;
  divisor stride_h, stride_w;

  explicit tap_axes(const grouped_geometry& g)
      : pad_h(g.pad_h), pad_w(g.pad_w), stride_h(g.stride_h), stride_w(g.stride_w) {}
};

// Returns which element of an axis of `extent` the filter tap `tap` of the result at `at` reads, or -1 if it
// lies outside. Backward it returns which result's tap read element `at`.
template <bool Backward>
__device__ int element_under_tap(int at, int tap, int pad, const divisor& stride, int extent) {
  int met = at * static_cast<int>(stride.value) - pad + tap;
  if constexpr (Backward) {
    const int distance = at + pad - tap;
    auto whole = static_cast<std::uint32_t>(max(distance, 0));
    const bool between = stride.take_remainder(whole) != 0;
    met = distance < 0 || between ? -1 : static_cast<int>(whole);
  }
  return met >= 0 && met < extent ? met : -1;
}

// Loads the elements that the taps of a result read; those outside stay zero.
template <class T, bool Backward>
__device__ void load_neighbours(const tensor_strides& of, const tap_axes& axes, const T* from,
                                std::int64_t channel, const dims& at, bits<T, neighbours> (&taken)[taps]) {
  int rows[side], columns[side];
#pragma unroll
  for (int i = 0; i < side; ++i) {
    rows[i] = element_under_tap<Backward>(static_cast<int>(at.h), i, axes.pad_h, axes.stride_h,
                                          static_cast<int>(of.shape.h));
    columns[i] = element_under_tap<Backward>(static_cast<int>(at.w), i, axes.pad_w, axes.stride_w,
                                             static_cast<int>(of.shape.w));
  }
  const T* const image = from + at.n * of.stride.n + channel;
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) {
    const int row = rows[tap / side], column = columns[tap % side];
    if (row >= 0 && column >= 0)
      taken[tap] = load<neighbours>(image + row * of.stride.h + column * of.stride.w);
  }
}

// Computes y from x or, if Backward, dx from dy.
template <class T, bool Backward>
__global__ void __launch_bounds__(block_threads)
    convolve(grouped_geometry g, tap_axes axes, position_finder<std::uint32_t> find, std::int64_t positions,
             const T* from, const T* w, const float* b, T* to) {
  const std::int64_t channel = channel_of_thread<channels_layout<T>>();
  const tensor_strides &source = Backward ? g.y : g.x, &result = Backward ? g.x : g.y;
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
    load_neighbours<T, Backward>(source, axes, from, channel, at, taken);
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
  float taps_sum[taps] = {};
  __device__ static filter_sums plus(const filter_sums& a, const filter_sums& b) {
    filter_sums both;
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) both.taps_sum[tap] = a.taps_sum[tap] + b.taps_sum[tap];
    return both;
  }
};

template <class T>
__global__ void __launch_bounds__(block_threads)
    sum_products(grouped_geometry g, tap_axes axes, position_finder<std::uint32_t> find,
                 std::int64_t positions, const T* x, const T* dy, filter_sums* partial) {
  const std::int64_t channel = channel_of_thread<channels_layout<T>>();
  filter_sums mine[neighbours] = {};
  if (channel < g.x.shape.c) {
    const share_of_block share(positions);
    for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
      const dims at = find(static_cast<std::uint32_t>(share.begin + local));
      const bits<T, neighbours> gradients = load<neighbours>(dy + g.y.at(at.n, channel, at.h, at.w));
      bits<T, neighbours> taken[taps] = {};
      load_neighbours<T, false>(g.x, axes, x, channel, at, taken);
      float d[neighbours];
      unpack<T, neighbours>(gradients, d);
#pragma unroll
      for (int tap = 0; tap < taps; ++tap) {
        float v[neighbours];
        unpack<T, neighbours>(taken[tap], v);
#pragma unroll
        for (int i = 0; i < neighbours; ++i) mine[i].taps_sum[tap] = fmaf(v[i], d[i], mine[i].taps_sum[tap]);
      }
    }
  }
  combine_sums_of_block<channels_layout<T>>(mine, partial + blockIdx.y * g.x.shape.c, g.x.shape.c);
}

struct write_filter {
  float* dw;
  bool add;
  __device__ void operator()(std::int64_t channel, const filter_sums& total) const {
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
      float& target = dw[channel * taps + tap];
      target = add ? target + total.taps_sum[tap] : total.taps_sum[tap];
    }
  }
};

// Divides the pixels of `over` among four blocks for each multiprocessor.
template <class T>
grid_cover cover_of_pixels(int multiprocessors, const dims& over) {
  return grid_cover_of<channels_layout<T>>(over.c, over.n * over.h * over.w,
                                           std::int64_t{multiprocessors} * 4, 4);
}
inline position_finder<std::uint32_t> finder_of_pixels(const dims& over) {
  return {{over.n, 1, over.h, over.w}, memory_order::nhwc};
}

template <class T, bool Backward>
void launch_convolve(launch_site where, const grouped_convolution& of, const T* from, const T* w,
                     const float* b, T* to) {
  const dims& result = Backward ? of.x : of.y;
  const grid_cover c = cover_of_pixels<T>(where.multiprocessors, result);
  grouped_geometry g = geometry_of(of);
  if (Backward) g.relu = false;
  launch(where, &convolve<T, Backward>, c.grid, c.block, g, tap_axes(g), finder_of_pixels(result),
         c.positions, from, w, b, to);
}

inline std::size_t workspace_of(int multiprocessors, const grouped_convolution& of) {
  const grid_cover c = cover_of_pixels<float>(multiprocessors, of.y);
  return c.grid.y * static_cast<std::size_t>(of.x.c) * sizeof(filter_sums);
}

template <class T>
void launch_filter(launch_site where, const grouped_convolution& of, const T* x, const T* dy, float* dw,
                   bool add, float* workspace) {
  const grid_cover c = cover_of_pixels<T>(where.multiprocessors, of.y);
  const grouped_geometry g = geometry_of(of);
  auto* const partial = reinterpret_cast<filter_sums*>(workspace);
  launch(where, &sum_products<T>, c.grid, c.block, g, tap_axes(g), finder_of_pixels(of.y), c.positions, x, dy,
         partial);
  launch_combine(where, static_cast<const filter_sums*>(partial), of.x.c, c.grid.y, write_filter{dw, add});
}

}  // namespace depthwise
}  // namespace um::kernels
