#include "backends/cuda/kernels/positions.cuh"

namespace um::kernels {
namespace {

// One axis of the pool, in the coordinates of the whole input.
struct window_axis {
  int window, stride, pad, extent;
  bool counts_padding;

  __device__ int begin(int i) const { return i * stride - pad; }
  // Elements that the mean of window i is of.
  __device__ int count(int i) const {
    const int first = begin(i), end = first + window;
    if (counts_padding) return min(end, extent + pad) - first;
    return min(end, extent) - max(first, 0);
  }
  __device__ int first_window(int element) const {
    const int beyond = element + pad - window;  // no window that begins here or before meets it
    return beyond < 0 ? 0 : beyond / stride + 1;
  }
  __device__ int last_window(int element) const { return (element + pad) / stride; }
};

struct pool_geometry {
  laid_out x, y;
  window_axis rows, columns;
  int x_row, y_row;
  bool channels_last;
};

pool_geometry geometry_of(const average_problem& p) {
  const average_pool& a = p.how;
  return {laid_out(p.x, p.order),
          laid_out(p.y, p.order),
          {a.window_h, a.stride_h, a.pad_h, static_cast<int>(p.height), a.count_include_pad},
          {a.window_w, a.stride_w, a.pad_w, static_cast<int>(p.x.w), a.count_include_pad},
          static_cast<int>(p.x_row),
          static_cast<int>(p.y_row),
          p.order == memory_order::nhwc};
}

template <class T, class Index>
__global__ void __launch_bounds__(block_threads)
    average_windows(const T* x, T* y, pool_geometry g, Index count) {
  for (auto i = thread_index<Index>(); i < count; i += grid_stride<Index>()) {
    const dims at = position_in(i, g.y.shape, g.channels_last);
    const int row = g.y_row + static_cast<int>(at.h), column = static_cast<int>(at.w);
    const int top = g.rows.begin(row), left = g.columns.begin(column);
    const int bottom = min(top + g.rows.window, g.rows.extent);
    const int right = min(left + g.columns.window, g.columns.extent);
    float sum = 0.0F;
    for (int h = max(top, 0); h < bottom; ++h) {
      for (int w = max(left, 0); w < right; ++w) sum += value_at(x + g.x.at(at.n, at.c, h - g.x_row, w));
    }
    put(y + g.y.at(at.n, at.c, at.h, at.w),
        sum / static_cast<float>(g.rows.count(row) * g.columns.count(column)));
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(block_threads)
    spread_windows(const T* dy, T* dx, pool_geometry g, Index count) {
  for (auto i = thread_index<Index>(); i < count; i += grid_stride<Index>()) {
    const dims at = position_in(i, g.x.shape, g.channels_last);
    const int h = g.x_row + static_cast<int>(at.h), w = static_cast<int>(at.w);
    const int last_row = min(g.rows.last_window(h), g.y_row + static_cast<int>(g.y.shape.h) - 1);
    const int last_column = min(g.columns.last_window(w), static_cast<int>(g.y.shape.w) - 1);
    float sum = 0.0F;
    for (int row = max(g.rows.first_window(h), g.y_row); row <= last_row; ++row) {
      for (int column = g.columns.first_window(w); column <= last_column; ++column) {
        sum += value_at(dy + g.y.at(at.n, at.c, row - g.y_row, column)) /
               static_cast<float>(g.rows.count(row) * g.columns.count(column));
      }
    }
    put(dx + g.x.at(at.n, at.c, at.h, at.w), sum);
  }
}

// The kernel that `choose` names for a type and an index, a thread for each element that it writes.
template <class Choose>
void for_each_element(launch_site where, const average_problem& problem, const dims& written,
                      const void* from, void* to, Choose choose) {
  with_type(problem.type, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = elements(written);
    with_index_of(count, [&](auto index) {
      using Index = decltype(index);
      choose(zero, index)<<<grid_for(where, count), block_threads, 0, where.stream>>>(
          static_cast<const T*>(from), static_cast<T*>(to), geometry_of(problem), static_cast<Index>(count));
      check(cudaGetLastError());
    });
  });
}

}  // namespace

void average_pool_forward(launch_site where, const void* x, void* y, const average_problem& problem) {
  for_each_element(where, problem, problem.y, x, y, [](auto zero, auto index) {
    return &average_windows<decltype(zero), decltype(index)>;
  });
}

void average_pool_backward(launch_site where, const void* dy, void* dx, const average_problem& problem) {
  for_each_element(where, problem, problem.x, dy, dx, [](auto zero, auto index) {
    return &spread_windows<decltype(zero), decltype(index)>;
  });
}

}  // namespace um::kernels
