#include "backends/cuda/kernels/grouped_convolution.cuh"

namespace um::kernels {
namespace {

template <class T, class... Pointers>
bool is_depthwise(const grouped_convolution& of, const Pointers*... operands) {
  return depthwise::has_depthwise_kernel(of) && aligned_to(sizeof(T) * depthwise::neighbours, operands...);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    forward(grouped_geometry g, position_finder<std::uint32_t> find, const T* x, const T* w, const float* b,
            T* y, std::uint32_t count) {
  for (auto i = thread_index<std::uint32_t>(); i < count; i += grid_stride<std::uint32_t>()) {
    const dims at = find(i);
    const int k = static_cast<int>(at.c), first = k / g.filters * g.channels;
    const int top = static_cast<int>(at.h) * g.stride_h - g.pad_h;
    const int left = static_cast<int>(at.w) * g.stride_w - g.pad_w;
    float sum = 0.0F;
    for (int c = 0; c < g.channels; ++c) {
      for (int r = 0; r < g.w.shape.h; ++r) {
        const int h = top + r;
        if (h < 0 || h >= g.x.shape.h) continue;
        for (int s = 0; s < g.w.shape.w; ++s) {
          const int v = left + s;
          if (v < 0 || v >= g.x.shape.w) continue;
          sum = fmaf(value_at(x + g.x.at(at.n, first + c, h, v)), value_at(w + g.w.at(k, c, r, s)), sum);
        }
      }
    }
    if (b != nullptr) sum += b[k];
    put(y + g.y.at(at.n, k, at.h, at.w), g.relu && !(sum > 0.0F) ? 0.0F : sum);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    backward_data(grouped_geometry g, position_finder<std::uint32_t> find, const T* w, const T* dy, T* dx,
                  std::uint32_t count) {
  for (auto i = thread_index<std::uint32_t>(); i < count; i += grid_stride<std::uint32_t>()) {
    const dims at = find(i);
    const int group = static_cast<int>(at.c) / g.channels, c = static_cast<int>(at.c) - group * g.channels;
    const int h = static_cast<int>(at.h) + g.pad_h, v = static_cast<int>(at.w) + g.pad_w;
    float sum = 0.0F;
    for (int k = group * g.filters; k < (group + 1) * g.filters; ++k) {
      for (int r = 0; r < g.w.shape.h; ++r) {
        const int row = (h - r) / g.stride_h;
        if (h < r || row * g.stride_h != h - r || row >= g.y.shape.h) continue;
        for (int s = 0; s < g.w.shape.w; ++s) {
          const int column = (v - s) / g.stride_w;
          if (v < s || column * g.stride_w != v - s || column >= g.y.shape.w) continue;
          sum = fmaf(value_at(dy + g.y.at(at.n, k, row, column)), value_at(w + g.w.at(k, c, r, s)), sum);
        }
      }
    }
    put(dx + g.x.at(at.n, at.c, at.h, at.w), sum);
  }
}

// The filter gradient: a block sums up one tap of a run of filters over one segment of the pixels of y. In
// NCHW its threads take neighbouring pixels of one filter. In NHWC a warp takes neighbouring filters, and
// each warp other pixels.
constexpr int lanes = 32, stripes = block_threads / lanes;

struct segments_of_pixels {
  std::int64_t pixels = 0;
  int count = 1;
};

int blocks_of_filters(const grouped_convolution& of) {
  const std::int64_t filters = of.order == memory_order::nhwc ? divide_up(of.w.n, lanes) : of.w.n;
  return static_cast<int>(filters);
}

segments_of_pixels segments_of(int multiprocessors, const grouped_convolution& of) {
  constexpr std::int64_t wanted_blocks = 8, min_pixels = 1024, max_segments = 1024;
  const std::int64_t pixels = of.y.n * of.y.h * of.y.w;
  const std::int64_t blocks = blocks_of_filters(of) * of.w.c * of.w.h * of.w.w;
  const std::int64_t count = divide_up(multiprocessors * wanted_blocks, blocks);
  return {pixels, static_cast<int>(std::min(
                      {std::max<std::int64_t>(count, 1), divide_up(pixels, min_pixels), max_segments}))};
}

template <class T, bool Planes>
__global__ void __launch_bounds__(block_threads)
    sum_products(grouped_geometry g, const T* x, const T* dy, float* partial, segments_of_pixels segments,
                 divisor by_column, divisor by_row) {
  const int lane = threadIdx.x % lanes, stripe = threadIdx.x / lanes;
  const std::int64_t k = Planes ? blockIdx.x : static_cast<std::int64_t>(blockIdx.x) * lanes + lane;
  const bool there = k < g.w.shape.n;
  std::uint32_t tap = blockIdx.y;
  const int s = static_cast<int>(tap % g.w.shape.w), r = static_cast<int>(tap / g.w.shape.w % g.w.shape.h);
  const int c = static_cast<int>(tap / (g.w.shape.w * g.w.shape.h));
  const std::int64_t begin = segments.pixels * blockIdx.z / segments.count;
  const std::int64_t end = segments.pixels * (blockIdx.z + 1) / segments.count;
  const std::int64_t channel = (there ? k : 0) / g.filters * g.channels + c;
  float sum = 0.0F;
  for (std::int64_t p = begin + (Planes ? threadIdx.x : stripe); there && p < end;
       p += Planes ? block_threads : stripes) {
    auto rest = static_cast<std::uint32_t>(p);
    const int j = static_cast<int>(by_column.take_remainder(rest)),
              i = static_cast<int>(by_row.take_remainder(rest));
    const int h = i * g.stride_h - g.pad_h + r, v = j * g.stride_w - g.pad_w + s;
    if (h < 0 || h >= g.x.shape.h || v < 0 || v >= g.x.shape.w) continue;
    sum = fmaf(value_at(x + g.x.at(rest, channel, h, v)), value_at(dy + g.y.at(rest, k, i, j)), sum);
  }
  const std::int64_t count = g.w.shape.n * g.w.shape.c * g.w.shape.h * g.w.shape.w;
  float* const to = partial + blockIdx.z * count;
  if constexpr (Planes) {
    const float total = block_sum(sum);
    if (threadIdx.x == 0) to[g.w.at(k, c, r, s)] = total;
  } else {
    __shared__ float of_stripe[stripes][lanes];
    of_stripe[stripe][lane] = sum;
    __syncthreads();
    if (stripe != 0 || !there) return;
    for (int other = 1; other < stripes; ++other) sum += of_stripe[other][lane];
    to[g.w.at(k, c, r, s)] = sum;
  }
}

__global__ void __launch_bounds__(block_threads)
    add_segments(const float* partial, float* dw, std::int64_t count, int segments, bool add) {
  for (auto i = thread_index<std::int64_t>(); i < count; i += grid_stride<std::int64_t>()) {
    float sum = add ? dw[i] : 0.0F;
    for (int segment = 0; segment < segments; ++segment) sum += partial[segment * count + i];
    dw[i] = sum;
  }
}

template <class T>
void sum_in_segments(launch_site where, const grouped_convolution& of, const T* x, const T* dy, float* dw,
                     bool add, float* partial) {
  const segments_of_pixels segments = segments_of(where.multiprocessors, of);
  const auto kernel = of.order == memory_order::nhwc ? &sum_products<T, false> : &sum_products<T, true>;
  const dim3 grid(static_cast<unsigned>(blocks_of_filters(of)),
                  static_cast<unsigned>(of.w.c * of.w.h * of.w.w), static_cast<unsigned>(segments.count));
  launch(where, kernel, grid, block_threads, geometry_of(of), x, dy, partial, segments, divisor(of.y.w),
         divisor(of.y.h));
  const std::int64_t count = element_count(of.w);
  launch(where, &add_segments, grid_for(where, count), block_threads, partial, dw, count, segments.count,
         add);
}

}  // namespace

void grouped_forward(launch_site where, const grouped_convolution& of, const void* x, const void* w,
                     const float* b, void* y) {
  with_type(of.type, [&](auto zero) {
    using T = decltype(zero);
    const auto *const xs = static_cast<const T*>(x), *const ws = static_cast<const T*>(w);
    auto* const ys = static_cast<T*>(y);
    if (is_depthwise<T>(of, x, y)) return depthwise::launch_convolve<T, false>(where, of, xs, ws, b, ys);
    const std::int64_t count = element_count(of.y);
    launch(where, &forward<T>, grid_for(where, count), block_threads, geometry_of(of),
           position_finder<std::uint32_t>(of.y, of.order), xs, ws, b, ys, static_cast<std::uint32_t>(count));
  });
}

void grouped_backward_data(launch_site where, const grouped_convolution& of, const void* w, const void* dy,
                           void* dx) {
  with_type(of.type, [&](auto zero) {
    using T = decltype(zero);
    const auto *const ws = static_cast<const T*>(w), *const dys = static_cast<const T*>(dy);
    auto* const dxs = static_cast<T*>(dx);
    if (is_depthwise<T>(of, dy, dx))
      return depthwise::launch_convolve<T, true>(where, of, dys, ws, nullptr, dxs);
    const std::int64_t count = element_count(of.x);
    launch(where, &backward_data<T>, grid_for(where, count), block_threads, geometry_of(of),
           position_finder<std::uint32_t>(of.x, of.order), ws, dys, dxs, static_cast<std::uint32_t>(count));
  });
}

std::size_t grouped_filter_workspace(int multiprocessors, const grouped_convolution& of) {
  const auto any =
      static_cast<std::size_t>(segments_of(multiprocessors, of).count * element_count(of.w)) * sizeof(float);
  return depthwise::has_depthwise_kernel(of) ? std::max(any, depthwise::workspace_of(multiprocessors, of))
                                             : any;
}

void grouped_backward_filter(launch_site where, const grouped_convolution& of, const void* x, const void* dy,
                             float* dw, bool add, float* workspace) {
  with_type(of.type, [&](auto zero) {
    using T = decltype(zero);
    const auto *const xs = static_cast<const T*>(x), *const dys = static_cast<const T*>(dy);
    if (is_depthwise<T>(of, x, dy))
      return depthwise::launch_filter<T>(where, of, xs, dys, dw, add, workspace);
    sum_in_segments<T>(where, of, xs, dys, dw, add, workspace);
  });
}

}  // namespace um::kernels
