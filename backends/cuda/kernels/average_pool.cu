#include "backends/cuda/kernels/positions.cuh"

namespace um::kernels {
namespace {

// An axis of the pool, in coordinates of the whole input.
struct window_axis {
  int window, pad, extent;
  divisor stride;
  bool counts_padding;

  __device__ int begin(int i) const { return i * static_cast<int>(stride.value) - pad; }
  __device__ bool holds(int element) const { return element >= 0 && element < extent; }
  // The number of elements that window i averages.
  __device__ int elements_in_window(int i) const {
    const int first = begin(i), end = first + window;
    if (counts_padding) return min(end, extent + pad) - first;
    return min(end, extent) - max(first, 0);
  }
  __device__ int first_window(int element) const {
    const int beyond = element + pad - window;  // windows that begin here or before do not reach the element
    return beyond < 0 ? 0 : static_cast<int>(stride.quotient(static_cast<std::uint32_t>(beyond))) + 1;
  }
  __device__ int last_window(int element) const {
    return static_cast<int>(stride.quotient(static_cast<std::uint32_t>(element + pad)));
  }
  // The largest number of windows that cover one element.
  int max_covering_windows() const { return static_cast<int>(divide_up(window, stride.value)); }
};

struct pool_geometry {
  tensor_strides x, y;
  window_axis rows, columns;
  int first_x_row, first_y_row;

  __device__ float weight_at(int row, int column) const {
    return 1.0F / static_cast<float>(rows.elements_in_window(row) * columns.elements_in_window(column));
  }
};

pool_geometry geometry_of(const average_pool_problem& p) {
  const average_pool& a = p.attributes;
  return {tensor_strides(p.x, p.order),
          tensor_strides(p.y, p.order),
          {a.window_h, a.pad_h, static_cast<int>(p.height), divisor(a.stride_h), a.count_include_pad},
          {a.window_w, a.pad_w, static_cast<int>(p.x.w), divisor(a.stride_w), a.count_include_pad},
          static_cast<int>(p.first_x_row),
          static_cast<int>(p.first_y_row)};
}

template <class T, int N>
__device__ void add_weighted(float (&sum)[N], const bits<T, N>& values, float share) {
  float v[N];
  unpack<T, N>(values, v);
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] = fmaf(v[i], share, sum[i]);
}

// Averages x under a window, for N neighbouring channels. Windows of known size are loaded whole before the
// first use. `Window` 0 takes any size.
template <class T, int N, int Window, class Index>
__global__ void __launch_bounds__(block_threads)
    average_windows(const T* x, T* y, pool_geometry g, position_finder<Index> find, Index count) {
  for (auto i = thread_index<Index>(); i < count; i += grid_stride<Index>()) {
    const dims at = find(i);
    const int row = g.first_y_row + static_cast<int>(at.h), column = static_cast<int>(at.w);
    const int top = g.rows.begin(row), left = g.columns.begin(column);
    const std::int64_t first = g.x.at(at.n, at.c, top - g.first_x_row, left);
    float sum[N] = {};
    if constexpr (Window > 0) {
      bits<T, N> taken[Window][Window] = {};
#pragma unroll
      for (int h = 0; h < Window; ++h) {
#pragma unroll
        for (int w = 0; w < Window; ++w) {
          if (!g.rows.holds(top + h) || !g.columns.holds(left + w)) continue;
          taken[h][w] = load<N>(x + first + h * g.x.stride.h + w * g.x.stride.w);
        }
      }
#pragma unroll
      for (int tap = 0; tap < Window * Window; ++tap)
        add_weighted<T, N>(sum, taken[tap / Window][tap % Window], 1.0F);
    } else {
      const int bottom = min(g.rows.window, g.rows.extent - top);
      const int right = min(g.columns.window, g.columns.extent - left);
      for (int h = max(-top, 0); h < bottom; ++h) {
        for (int w = max(-left, 0); w < right; ++w) {
          add_weighted<T, N>(sum, load<N>(x + first + h * g.x.stride.h + w * g.x.stride.w), 1.0F);
        }
      }
    }
    const float share = g.weight_at(row, column);
#pragma unroll
    for (float& s : sum) s *= share;
    store<N>(y + g.y.at(at.n, at.c, at.h, at.w), pack<T, N>(sum));
  }
}

// Sums up the gradient of N neighbouring channels of x over the windows that cover them. At most `Covering`
// cover an element along each axis; these are loaded before the first use. `Covering` 0 takes any number.
template <class T, int N, int Covering, class Index>
__global__ void __launch_bounds__(block_threads)
    spread_windows(const T* dy, T* dx, pool_geometry g, position_finder<Index> find, Index count) {
  for (auto i = thread_index<Index>(); i < count; i += grid_stride<Index>()) {
    const dims at = find(i);
    const int h = g.first_x_row + static_cast<int>(at.h), w = static_cast<int>(at.w);
    const int top = max(g.rows.first_window(h), g.first_y_row), left = g.columns.first_window(w);
    const int rows = min(g.rows.last_window(h) + 1, g.first_y_row + static_cast<int>(g.y.shape.h)) - top;
    const int columns = min(g.columns.last_window(w) + 1, static_cast<int>(g.y.shape.w)) - left;
    const std::int64_t first = g.y.at(at.n, at.c, top - g.first_y_row, left);
    float sum[N] = {};
    if constexpr (Covering > 0) {
      bits<T, N> taken[Covering][Covering] = {};
#pragma unroll
      for (int r = 0; r < Covering; ++r) {
#pragma unroll
        for (int c = 0; c < Covering; ++c) {
          if (r >= rows || c >= columns) continue;
          taken[r][c] = load<N>(dy + first + r * g.y.stride.h + c * g.y.stride.w);
        }
      }
#pragma unroll
      for (int r = 0; r < Covering; ++r) {
#pragma unroll
        for (int c = 0; c < Covering; ++c) {
          if (r < rows && c < columns) add_weighted<T, N>(sum, taken[r][c], g.weight_at(top + r, left + c));
        }
      }
    } else {
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < columns; ++c) {
          add_weighted<T, N>(sum, load<N>(dy + first + r * g.y.stride.h + c * g.y.stride.w),
                             g.weight_at(top + r, left + c));
        }
      }
    }
    store<N>(dx + g.x.at(at.n, at.c, at.h, at.w), pack<T, N>(sum));
  }
}

template <int Value>
using constant = std::integral_constant<int, Value>;

// Calls launch(constant) with the size of both axes, or with 0 if they differ or exceed 3.
template <class Launch>
void with_constant_size(int rows, int columns, Launch launch) {
  if (rows == columns && rows == 1) return launch(constant<1>{});
  if (rows == columns && rows == 2) return launch(constant<2>{});
  if (rows == columns && rows == 3) return launch(constant<3>{});
  launch(constant<0>{});
}

// Launches the kernel that choose(T{}, constant N) returns. Each thread writes N neighbours. Kernels of a
// known size take tensors with 32-bit indices.
template <class Choose>
void launch_vectorized(launch_site where, const average_pool_problem& problem, const dims& written,
                       const pool_geometry& geometry, int rows, int columns, const void* from, void* to,
                       Choose choose) {
  with_type(problem.type, [&](auto zero) {
    using T = decltype(zero);
    const auto of = [&](auto n) {
      const std::int64_t count = element_count(written) / n();
      const auto run = [&](auto index, auto size) {
        using Index = decltype(index);
        launch(where, choose(zero, n, size, index), grid_for(where, count), block_threads,
               static_cast<const T*>(from), static_cast<T*>(to), geometry,
               position_finder<Index>(written, problem.order, n()), static_cast<Index>(count));
      };
      if (count >= std::int64_t{1} << 31) return run(std::uint64_t{}, constant<0>{});
      with_constant_size(rows, columns, [&](auto size) { run(std::uint32_t{}, size); });
    };
    const bool vectors = problem.order == memory_order::nhwc && written.c % vector_of<T> == 0;
    if (vectors && aligned_to(16, from, to)) return of(constant<vector_of<T>>{});
    of(constant<1>{});
  });
}

}  // namespace

void average_pool_forward(launch_site where, const void* x, void* y, const average_pool_problem& problem) {
  const pool_geometry g = geometry_of(problem);
  launch_vectorized(where, problem, problem.y, g, g.rows.window, g.columns.window, x, y,
                    [](auto zero, auto n, auto window, auto index) {
                      return &average_windows<decltype(zero), n(), window(), decltype(index)>;
                    });
}

void average_pool_backward(launch_site where, const void* dy, void* dx, const average_pool_problem& problem) {
  const pool_geometry g = geometry_of(problem);
  launch_vectorized(where, problem, problem.x, g, g.rows.max_covering_windows(),
                    g.columns.max_covering_windows(), dy, dx,
                    [](auto zero, auto n, auto covering, auto index) {
                      return &spread_windows<decltype(zero), n(), covering(), decltype(index)>;
                    });
}

}  // namespace um::kernels
