#include "backends/cuda/kernels/pool.cuh"

namespace um::kernels {
namespace {

// The maximum of each of N lanes so far, and its position. The first of equal values wins.
template <int N>
struct running_maximum {
  float value[N];
  int at[N];

  __device__ void start(const float (&first)[N], int position) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      value[i] = first[i];
      at[i] = position;
    }
  }
  __device__ void update(int i, float other, int position) {
    const bool wins = other > value[i];
    value[i] = wins ? other : value[i];
    at[i] = wins ? position : at[i];
  }
  __device__ void update(const float (&other)[N], int position) {
#pragma unroll
    for (int i = 0; i < N; ++i) update(i, other[i], position);
  }
  // The positions of `other` count from `position` on.
  __device__ void update(const running_maximum& other, int position) {
#pragma unroll
    for (int i = 0; i < N; ++i) update(i, other.value[i], position + other.at[i]);
  }
};

template <class T, class Index>
struct pool_operands {
  const T* x;
  const float* b;
  T* y;
  Index* index;
  bool relu;
};

template <class Layout, class Index>
__device__ void write_pooled(const pool_operands<typename Layout::value, Index>& to, std::int64_t at,
                             const running_maximum<Layout::vector>& best,
                             const float (&b)[Layout::channels]) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector;
  float v[N];
  Index positions[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    v[i] = best.value[i] + b[i % Layout::channels];
    if (to.relu) v[i] = v[i] > 0.0F ? v[i] : 0.0F;
    positions[i] = static_cast<Index>(best.at[i]);
  }
  store<N>(to.y + at, pack<T, N>(v));
  bits<Index, N> packed;
  memcpy(&packed, positions, sizeof packed);
  store<N>(to.index + at, packed);
}

// The rows of input under a column of windows. A row or column outside of the input is replaced by the
// nearest inside, at that one's position: a second copy never wins. So nothing branches, and all loads of a
// window start before the first use.
template <class Layout, int Window>
class window_column {
 public:
  using T = typename Layout::value;
  static constexpr int N = Layout::vector;
  struct row {
    bits<T, N> at[Window];
  };

  __device__ window_column(const T* x, const pool_extents& e, const strip& s, std::int64_t channel)
      : left_(s.column * e.stride - e.pad_left), height_(e.x_h) {
    const plane_view<Layout> view(e.channels, e.x_h, e.x_w, s.sample, channel);
    from_ = x + view.base;
    row_ = view.row;
#pragma unroll
    for (int i = 0; i < Window; ++i) {
      const int column = min(max(left_ + i, 0), e.x_w - 1);
      position_[i] = column - left_;
      column_[i] = column * view.column;
    }
  }
  __device__ int inside(int h) const { return min(max(h, 0), height_ - 1); }
  __device__ row load_row(int h) const {
    const T* const from = from_ + inside(h) * row_;
    row r;
#pragma unroll
    for (int i = 0; i < Window; ++i) r.at[i] = load<N>(from + column_[i]);
    return r;
  }
  // Positions are columns of the window.
  __device__ running_maximum<N> maximum_of(const row& r) const {
    running_maximum<N> best;
    float v[N];
    unpack<T, N>(r.at[0], v);
    best.start(v, position_[0]);
#pragma unroll
    for (int i = 1; i < Window; ++i) {
      unpack<T, N>(r.at[i], v);
      best.update(v, position_[i]);
    }
    return best;
  }

 private:
  const T* from_;
  std::int64_t row_;
  int left_, height_;
  int position_[Window];
  std::int64_t column_[Window];
};

// Computes windows of 2 or 3, two apart. Windows below each other share at most one row. Its maxima are kept,
// so that a strip reads each row once.
template <class Layout, int Window, class Index>
__device__ void pool_strip(const pool_operands<typename Layout::value, Index>& data, const pool_extents& e,
                           const strip& s, std::int64_t channel, const float (&b)[Layout::channels]) {
  constexpr int N = Layout::vector, stride = 2, shared = Window - stride;
  static_assert(shared == 0 || shared == 1);
  using column = window_column<Layout, Window>;
  const column x(data.x, e, s, channel);
  const plane_view<Layout> y(e.channels, e.y_h, e.y_w, s.sample, channel);
  running_maximum<N> carried;
  if (shared == 1) carried = x.maximum_of(x.load_row(s.begin * stride - e.pad_above));
  for (int row = s.begin; row < s.end; ++row) {
    const int top = row * stride - e.pad_above;
    typename column::row rows[Window];
#pragma unroll
    for (int i = shared; i < Window; ++i) rows[i] = x.load_row(top + i);
    running_maximum<N> best = shared == 1 ? carried : x.maximum_of(rows[0]);
    const int first = (x.inside(top) - top) * Window;
#pragma unroll
    for (int i = 0; i < N; ++i) best.at[i] += first;
#pragma unroll
    for (int i = 1; i < Window; ++i) {
      const running_maximum<N> of_row = x.maximum_of(rows[i]);
      best.update(of_row, (x.inside(top + i) - top) * Window);
      if (i == Window - 1) carried = of_row;
    }
    write_pooled<Layout>(data, y(row, s.column), best, b);
  }
}

// Computes any window by a loop over its part inside the input.
template <class Layout, class Index>
__device__ void pool_any(const pool_operands<typename Layout::value, Index>& data, const pool_extents& e,
                         const strip& s, std::int64_t channel, const float (&b)[Layout::channels]) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector;
  const plane_view<Layout> x(e.channels, e.x_h, e.x_w, s.sample, channel);
  const plane_view<Layout> y(e.channels, e.y_h, e.y_w, s.sample, channel);
  const int top = s.begin * e.stride - e.pad_above, left = s.column * e.stride - e.pad_left;
  const int h_begin = max(top, 0), h_end = min(top + e.window, e.x_h);
  const int w_begin = max(left, 0), w_end = min(left + e.window, e.x_w);
  running_maximum<N> best;
  float v[N];
  unpack<T, N>(load<N>(data.x + x(h_begin, w_begin)), v);
  best.start(v, (h_begin - top) * e.window + w_begin - left);
  for (int h = h_begin; h < h_end; ++h) {
    for (int w = w_begin; w < w_end; ++w) {
      unpack<T, N>(load<N>(data.x + x(h, w)), v);
      best.update(v, (h - top) * e.window + w - left);
    }
  }
  write_pooled<Layout>(data, y(s.begin, s.column), best, b);
}

// `Window` is the size of the windows, or 0 for any size.
template <class Layout, int Window, class Index>
__global__ void __launch_bounds__(block_threads) pool(pool_operands<typename Layout::value, Index> data,
                                                      pool_extents e, strips along, std::int64_t positions) {
  const std::int64_t channel = channel_of_thread<Layout>();
  if (channel >= e.channels) return;
  const share_of_block share(positions);
  const strip_finder find(along, share.begin);
  float b[Layout::channels] = {};
  if (data.b != nullptr) load_channels(data.b + channel, b);
  for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
    if constexpr (Window == 0) {
      pool_any<Layout>(data, e, find(local), channel, b);
    } else {
      pool_strip<Layout, Window>(data, e, find(local), channel, b);
    }
  }
}

// Computes windows of 2x2 side by side over planes whose rows are whole vectors. A thread reads a vector from
// each of two rows and writes half a vector.
template <class Layout, class Index>
__global__ void __launch_bounds__(block_threads)
    pool_tiles(pool_operands<typename Layout::value, Index> data, pool_extents e, strips along,
               std::int64_t positions) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector, half = N / 2;
  const std::int64_t channel = blockIdx.x;
  const share_of_block share(positions);
  const strip_finder find(along, share.begin);
  const float b[1] = {data.b == nullptr ? 0.0F : __ldg(data.b + channel)};
  for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
    const strip s = find(local);
    const std::int64_t plane = s.sample * e.channels + channel;
    const T* const upper = data.x + (plane * e.x_h + 2 * s.begin) * e.x_w + s.column * N;
    const bits<T, N> rows[2] = {load<N>(upper), load<N>(upper + e.x_w)};
    float u[N], v[N];
    unpack<T, N>(rows[0], u);
    unpack<T, N>(rows[1], v);
    running_maximum<half> best;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      best.value[i] = u[2 * i];
      best.at[i] = 0;
      best.update(i, u[2 * i + 1], 1);
      best.update(i, v[2 * i], 2);
      best.update(i, v[2 * i + 1], 3);
    }
    write_pooled<layout<T, half, memory_order::nchw>>(
        data, (plane * e.y_h + s.begin) * e.y_w + s.column * half, best, b);
  }
}

template <class T, class Index>
pool_operands<T, Index> operands_as(const void* x, const float* b, void* y, void* index, bool relu) {
  return {static_cast<const T*>(x), b, static_cast<T*>(y), static_cast<Index*>(index), relu};
}

void launch_tiles(launch_site where, const void* x, const float* b, void* y, void* index,
                  const max_pool_problem& p) {
  with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    using L = layout<T, vector_of<T>, memory_order::nchw>;
    const strips along(p.x.n, p.y.h, p.x.w / L::vector, 1);
    const grid_cover c =
        grid_cover_of<L>(p.x.c, along.positions(), std::numeric_limits<std::int32_t>::max(), 2);
    launch(where, &pool_tiles<L, std::uint8_t>, c.grid, c.block,
           operands_as<T, std::uint8_t>(x, b, y, index, p.attributes.relu), pool_extents_of(p), along,
           c.positions);
  });
}

void launch_strips(launch_site where, const void* x, const float* b, void* y, void* index,
                   const max_pool_problem& p, bool aligned) {
  const strips along(p.x.n, p.y.h, p.y.w, has_own_kernel(p.attributes) ? 4 : 1);
  const pool_extents e = pool_extents_of(p);
  with_column_layout(p, aligned, [&](auto l) {
    using L = decltype(l);
    using T = typename L::value;
    const grid_cover c =
        grid_cover_of<L>(p.x.c, along.positions(), std::numeric_limits<std::int32_t>::max(), 1);
    if (has_own_kernel(p.attributes)) {
      const auto kernel = p.attributes.window == 2 ? &pool<L, 2, std::uint8_t> : &pool<L, 3, std::uint8_t>;
      return launch(where, kernel, c.grid, c.block,
                    operands_as<T, std::uint8_t>(x, b, y, index, p.attributes.relu), e, along, c.positions);
    }
    with_index(p.index_bytes, [&](auto i) {
      launch(where, &pool<L, 0, decltype(i)>, c.grid, c.block,
             operands_as<T, decltype(i)>(x, b, y, index, p.attributes.relu), e, along, c.positions);
    });
  });
}

}  // namespace

void max_pool_forward(launch_site where, const void* x, const float* b, void* y, void* index,
                      const max_pool_problem& p) {
  const bool aligned = aligned_to(16, x, y) && aligned_to(8, index);
  if (aligned && tiles_by_two(p)) return launch_tiles(where, x, b, y, index, p);
  launch_strips(where, x, b, y, index, p, aligned);
}

}  // namespace um::kernels
