#include "backends/cuda/kernels/pool.cuh"

namespace um::kernels {
namespace {

// The largest of N values each, and where it was. The first one wins; not-a-number wins over all.
template <int N>
struct largest {
  float value[N];
  int at[N];

  __device__ void start(int position) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      value[i] = -INFINITY;
      at[i] = position;
    }
  }
  __device__ void meet(const float (&other)[N], int position) {
#pragma unroll
    for (int i = 0; i < N; ++i) meet(i, other[i], position);
  }
  __device__ void meet(int i, float other, int position) {
    const bool wins = other > value[i] || other != other;
    value[i] = wins ? other : value[i];
    at[i] = wins ? position : at[i];
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
                             const largest<Layout::vector>& best, const float (&b)[Layout::channels]) {
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

// The largest of one row of a window whose first column is `left`; positions are columns of it.
template <class Layout>
__device__ largest<Layout::vector> largest_of_row(const typename Layout::value* x,
                                                  const plane_view<Layout>& from, const pool_extents& e,
                                                  int row, int left) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector;
  largest<N> best;
  best.start(max(-left, 0));
#pragma unroll 3
  for (int i = 0; i < e.window; ++i) {
    const int column = left + i;
    if (column < 0 || column >= e.x_w) continue;
    float v[N];
    unpack<T, N>(load<N>(x + from(row, column)), v);
    best.meet(v, i);
  }
  return best;
}

// Windows below each other that share at most one row: what is known of that row is carried on, so
// that a strip reads each of its rows once.
template <class Layout, int Window, int Stride, class Index>
__global__ void __launch_bounds__(block_threads) pool(pool_operands<typename Layout::value, Index> data,
                                                      pool_extents e, strips along, std::int64_t positions) {
  make_constant<Window, Stride>(e);
  constexpr bool shares_row = Window != 0 && Window == Stride + 1;
  constexpr int N = Layout::vector;
  const std::int64_t channel = channel_of_thread<Layout>();
  if (channel >= e.channels) return;
  const share_of_block share(positions);
  const strip_finder find(along, share.begin);
  float b[Layout::channels] = {};
  if (data.b != nullptr) load_channels(data.b + channel, b);
  for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
    const strip s = find(local);
    const plane_view<Layout> x(e.channels, e.x_h, e.x_w, s.sample, channel);
    const plane_view<Layout> y(e.channels, e.y_h, e.y_w, s.sample, channel);
    const int left = s.column * e.stride - e.pad;
    largest<N> shared;
    bool is_shared = false;
    for (int row = s.begin; row < s.end; ++row) {
      const int top = row * e.stride - e.pad;
      largest<N> best;
      best.start(max(-top, 0) * e.window + max(-left, 0));
#pragma unroll 3
      for (int i = 0; i < e.window; ++i) {
        if (top + i < 0 || top + i >= e.x_h) continue;
        const bool known = shares_row && i == 0 && is_shared;
        largest<N> of_row = known ? shared : largest_of_row<Layout>(data.x, x, e, top + i, left);
        if (shares_row && i == e.window - 1) shared = of_row;
#pragma unroll
        for (int k = 0; k < N; ++k) best.meet(k, of_row.value[k], i * e.window + of_row.at[k]);
      }
      is_shared = true;
      write_pooled<Layout>(data, y(row, s.column), best, b);
    }
  }
}

// Windows of 2x2 side by side over planes whose rows are whole vectors: a thread reads a vector from
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
  const float b = data.b == nullptr ? 0.0F : __ldg(data.b + channel);
  for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
    const strip s = find(local);
    const std::int64_t plane = s.sample * e.channels + channel;
    const T* const upper = data.x + (plane * e.x_h + 2 * s.begin) * e.x_w + s.column * N;
    const bits<T, N> rows[2] = {load<N>(upper), load<N>(upper + e.x_w)};
    float u[N], v[N];
    unpack<T, N>(rows[0], u);
    unpack<T, N>(rows[1], v);
    largest<half> best;
    best.start(0);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      best.meet(i, u[2 * i], 0);
      best.meet(i, u[2 * i + 1], 1);
      best.meet(i, v[2 * i], 2);
      best.meet(i, v[2 * i + 1], 3);
    }
    const float bias[1] = {b};
    write_pooled<layout<T, half, memory_order::nchw>>(
        data, (plane * e.y_h + s.begin) * e.y_w + s.column * half, best, bias);
  }
}

template <class T, class Index>
pool_operands<T, Index> operands_as(const void* x, const float* b, void* y, void* index, bool relu) {
  return {static_cast<const T*>(x), b, static_cast<T*>(y), static_cast<Index*>(index), relu};
}

void launch_tiles(launch_site where, const void* x, const float* b, void* y, void* index,
                  const pool_problem& p) {
  with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    using L = layout<T, vector_of<T>, memory_order::nchw>;
    const strips along(p.x.n, p.y.h, p.x.w / L::vector, 1);
    const cover c = cover_of<L>(p.x.c, along.positions(), std::numeric_limits<std::int32_t>::max(), 2);
    pool_tiles<L><<<c.grid, c.block, 0, where.stream>>>(
        operands_as<T, std::uint8_t>(x, b, y, index, p.how.relu), pool_extents_of(p), along, c.positions);
    check(cudaGetLastError());
  });
}

void launch_strips(launch_site where, const void* x, const float* b, void* y, void* index,
                   const pool_problem& p, bool aligned) {
  const int rows = p.how.window > p.how.stride ? 4 : 1;
  const strips along(p.x.n, p.y.h, p.y.w, rows);
  with_column_layout(p, aligned, [&](auto l) {
    using L = decltype(l);
    const cover c = cover_of<L>(p.x.c, along.positions(), std::numeric_limits<std::int32_t>::max(), 1);
    with_index(p.index_bytes, [&](auto narrow) {
      const auto data = operands_as<typename L::value, decltype(narrow)>(x, b, y, index, p.how.relu);
      with_window(p.how, [&](auto window, auto stride) {
        pool<L, window(), stride()>
            <<<c.grid, c.block, 0, where.stream>>>(data, pool_extents_of(p), along, c.positions);
        check(cudaGetLastError());
      });
    });
  });
}

}  // namespace

void max_pool_forward(launch_site where, const void* x, const float* b, void* y, void* index,
                      const pool_problem& p) {
  const bool aligned = aligned_to(16, x, y) && aligned_to(8, index);
  if (aligned && tiles_by_two(p)) return launch_tiles(where, x, b, y, index, p);
  launch_strips(where, x, b, y, index, p, aligned);
}

}  // namespace um::kernels
