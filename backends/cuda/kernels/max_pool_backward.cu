// Every element of dx is written once, by the thread that gathers it from the windows over it: no
// two threads add to one place, and the order of a sum is fixed. The bias gradient is summed over
// windows, each counted by one of the threads that read it.
#include "backends/cuda/kernels/pool.cuh"

namespace um::kernels {
namespace {

template <class T, class Index>
struct gradient_operands {
  const T* __restrict__ dy;
  const Index* __restrict__ index;
  const T* __restrict__ y;  // null without a ReLU
  T* __restrict__ dx;
  sum_of_one* partial;  // null without a bias gradient
};

// Gradients of N windows as they lie in memory, and in registers: nothing where y is 0.
template <class T, int N, class Index>
struct windows {
  bits<T, N> dy, y;
  bits<Index, N> index;
  bool given = false;

  __device__ void read(const gradient_operands<T, Index>& from, std::int64_t at) {
    dy = load<N>(from.dy + at);
    index = load<N>(from.index + at);
    if (from.y != nullptr) y = load<N>(from.y + at);
    given = true;
  }
  __device__ void unpack_to(const gradient_operands<T, Index>& from, float (&g)[N], Index (&at)[N]) const {
    unpack<T, N>(dy, g);
    memcpy(at, &index, sizeof at);
    if (from.y == nullptr) return;
    float value[N];
    unpack<T, N>(y, value);
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] = value[i] > 0.0F ? g[i] : 0.0F;
  }
};

template <class Layout, class Index>
__device__ void finish(const gradient_operands<typename Layout::value, Index>& data,
                       const float (&db)[Layout::channels], std::int64_t channels) {
  if (data.partial == nullptr) return;
  sum_of_one mine[Layout::channels];
#pragma unroll
  for (int i = 0; i < Layout::channels; ++i) mine[i].value = db[i];
  combine_block<Layout>(mine, data.partial + blockIdx.y * channels, channels);
}

// --- windows of 2 or 3, two apart ---
//
// Positions are counted from the padding's edge on. A thread has one column of positions and walks
// down window rows: row a holds the positions 2a and 2a + 1. A window of 3 also reaches position
// 2a + 2, which the next step writes, and column 2b + 2, the next even one.

template <class Layout, int Window, class Index>
struct column_of_windows {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector;

  windows<T, N, Index> own, before;

  __device__ void read(const gradient_operands<T, Index>& from, const plane_view<Layout>& at,
                       const pool_extents& e, int row, int column) {
    own.given = before.given = false;
    if (row >= e.y_h) return;
    const int b = column / 2;
    if (b < e.y_w) own.read(from, at(row, b));
    if (Window == 3 && column % 2 == 0 && b > 0 && b - 1 < e.y_w) before.read(from, at(row, b - 1));
  }
};

// What one row of windows gives to the positions in its own two rows and to the one below.
template <int N>
struct given_rows {
  float upper[N] = {}, lower[N] = {}, below[N] = {};

  // `position` is the first row's position inside the window.
  template <int Window, class Index>
  __device__ void meet(const float (&g)[N], const Index (&at)[N], int position) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      upper[i] += at[i] == position ? g[i] : 0.0F;
      lower[i] += at[i] == position + Window ? g[i] : 0.0F;
      if (Window == 3) below[i] += at[i] == position + 2 * Window ? g[i] : 0.0F;
    }
  }
};

// Windows are met in the order of their columns. Adds to db what the windows of an even column have.
template <class Layout, int Window, class Index>
__device__ given_rows<Layout::vector> give(const gradient_operands<typename Layout::value, Index>& data,
                                           const column_of_windows<Layout, Window, Index>& from, int column,
                                           float (&db)[Layout::channels]) {
  constexpr int N = Layout::vector;
  given_rows<N> result;
  float g[N];
  Index at[N];
  if (from.before.given) {
    from.before.unpack_to(data, g, at);
    result.template meet<Window>(g, at, 2);
  }
  if (from.own.given) {
    from.own.unpack_to(data, g, at);
    result.template meet<Window>(g, at, column % 2);
    if (column % 2 == 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) db[i % Layout::channels] += g[i];
    }
  }
  return result;
}

template <class Layout, int Window, class Index>
__device__ void gather_strip(const gradient_operands<typename Layout::value, Index>& data,
                             const pool_extents& e, const strip& s, std::int64_t channel,
                             float (&db)[Layout::channels]) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector;
  const plane_view<Layout> x(e.channels, e.x_h, e.x_w, s.sample, channel);
  const plane_view<Layout> y(e.channels, e.y_h, e.y_w, s.sample, channel);
  const int column = s.column - e.pad;
  const bool writes = column >= 0 && column < e.x_w;
  column_of_windows<Layout, Window, Index> next;
  float above[N] = {};
  if (Window == 3 && s.begin > 0) {
    float counted_elsewhere[Layout::channels] = {};
    next.read(data, y, e, s.begin - 1, s.column);
    const given_rows<N> row = give(data, next, s.column, counted_elsewhere);
#pragma unroll
    for (int i = 0; i < N; ++i) above[i] = row.below[i];
  }
  next.read(data, y, e, s.begin, s.column);
  for (int a = s.begin; a < s.end; ++a) {
    const column_of_windows<Layout, Window, Index> here = next;
    if (a + 1 < s.end) next.read(data, y, e, a + 1, s.column);
    given_rows<N> row = give(data, here, s.column, db);
    const int upper = 2 * a - e.pad;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      row.upper[i] += above[i];
      above[i] = row.below[i];
    }
    if (writes && upper >= 0 && upper < e.x_h) store<N>(data.dx + x(upper, column), pack<T, N>(row.upper));
    if (writes && upper + 1 >= 0 && upper + 1 < e.x_h) {
      store<N>(data.dx + x(upper + 1, column), pack<T, N>(row.lower));
    }
  }
}

template <class Layout, int Window, class Index>
__global__ void __launch_bounds__(block_threads)
    gather_columns(gradient_operands<typename Layout::value, Index> data, pool_extents e, strips along,
                   std::int64_t positions) {
  const std::int64_t channel = channel_of_thread<Layout>();
  float db[Layout::channels] = {};
  if (channel < e.channels) {
    const share_of_block share(positions);
    const strip_finder find(along, share.begin);
    for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
      gather_strip<Layout, Window>(data, e, find(local), channel, db);
    }
  }
  finish<Layout>(data, db, e.channels);
}

// --- any window ---

// A thread has an element of dx, or a vector of channels, at a time. A window is counted at the first
// of its positions that lies in x.
template <class Layout, class Index>
__device__ void gather_element(const gradient_operands<typename Layout::value, Index>& data,
                               const pool_extents& e, const strip& s, std::int64_t channel,
                               float (&db)[Layout::channels]) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector;
  const plane_view<Layout> y(e.channels, e.y_h, e.y_w, s.sample, channel);
  const int h = s.begin + e.pad, w = s.column + e.pad;
  const int first_row = h < e.window ? 0 : (h - e.window) / e.stride + 1;
  const int first_column = w < e.window ? 0 : (w - e.window) / e.stride + 1;
  const int last_row = min(h / e.stride, e.y_h - 1), last_column = min(w / e.stride, e.y_w - 1);
  float sum[N] = {};
  for (int row = first_row; row <= last_row; ++row) {
    for (int column = first_column; column <= last_column; ++column) {
      const int top = row * e.stride, left = column * e.stride;
      const bool counts = h == max(top, e.pad) && w == max(left, e.pad);
      windows<T, N, Index> here;
      here.read(data, y(row, column));
      float g[N];
      Index at[N];
      here.unpack_to(data, g, at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum[i] += at[i] == (h - top) * e.window + (w - left) ? g[i] : 0.0F;
        if (counts) db[i % Layout::channels] += g[i];
      }
    }
  }
  const plane_view<Layout> x(e.channels, e.x_h, e.x_w, s.sample, channel);
  store<N>(data.dx + x(s.begin, s.column), pack<T, N>(sum));
}

template <class Layout, class Index>
__global__ void __launch_bounds__(block_threads)
    gather_elements(gradient_operands<typename Layout::value, Index> data, pool_extents e, strips along,
                    std::int64_t positions) {
  const std::int64_t channel = channel_of_thread<Layout>();
  float db[Layout::channels] = {};
  if (channel < e.channels) {
    const share_of_block share(positions);
    const strip_finder find(along, share.begin);
    for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
      gather_element<Layout>(data, e, find(local), channel, db);
    }
  }
  finish<Layout>(data, db, e.channels);
}

// --- windows of 2x2 side by side, planes: half a vector of windows becomes a vector in two rows ---

template <class Layout, class Index>
__global__ void __launch_bounds__(block_threads)
    spread_tiles(gradient_operands<typename Layout::value, Index> data, pool_extents e, strips along,
                 std::int64_t positions) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector, half = N / 2;
  const std::int64_t channel = blockIdx.x;
  const share_of_block share(positions);
  const strip_finder find(along, share.begin);
  float db[1] = {};
  for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y) {
    const strip s = find(local);
    const std::int64_t plane = s.sample * e.channels + channel;
    windows<T, half, Index> here;
    here.read(data, (plane * e.y_h + s.begin) * e.y_w + s.column * half);
    float g[half], upper[N], lower[N];
    Index at[half];
    here.unpack_to(data, g, at);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      upper[2 * i] = at[i] == 0 ? g[i] : 0.0F;
      upper[2 * i + 1] = at[i] == 1 ? g[i] : 0.0F;
      lower[2 * i] = at[i] == 2 ? g[i] : 0.0F;
      lower[2 * i + 1] = at[i] == 3 ? g[i] : 0.0F;
      db[0] += g[i];
    }
    T* const to = data.dx + (plane * e.x_h + 2 * s.begin) * e.x_w + s.column * N;
    store<N>(to, pack<T, N>(upper));
    store<N>(to + e.x_w, pack<T, N>(lower));
  }
  finish<Layout>(data, db, e.channels);
}

// --- launchers ---

struct raw_operands {
  const void *dy, *index, *y;
  void* dx;
  float* partial;

  template <class T, class Index>
  gradient_operands<T, Index> as() const {
    return {static_cast<const T*>(dy), static_cast<const Index*>(index), static_cast<const T*>(y),
            static_cast<T*>(dx), reinterpret_cast<sum_of_one*>(partial)};
  }
};

// Calls launch(layout, strips, cover) for the kernel that fits, which is named by a constant.
enum class way { tiles, columns, elements };

way way_of(const pool_problem& p, bool aligned) {
  if (aligned && tiles_by_two(p) && p.index_bytes == 1) return way::tiles;
  const bool usual = p.how.stride == 2 && (p.how.window == 2 || p.how.window == 3);
  return usual && p.index_bytes == 1 ? way::columns : way::elements;
}

strips strips_of(const pool_problem& p, way how) {
  if (how == way::tiles) return {p.x.n, p.y.h, p.x.w / (p.type == dtype::bf16 ? 8 : 4), 1};
  if (how == way::elements) return {p.x.n, p.x.h, p.x.w, 1};
  const std::int64_t rows = std::max(divide_up(p.x.h + p.how.pad, 2), p.y.h);
  return {p.x.n, rows, std::max(p.x.w + p.how.pad, 2 * p.y.w), p.how.window == 3 ? 8 : 2};
}

template <class Layout>
cover cover_for(const pool_problem& p, const strips& along, bool sums) {
  const std::int64_t blocks = sums ? 1056 : std::numeric_limits<std::int32_t>::max();
  return cover_of<Layout>(p.x.c, along.positions(), blocks, 1);
}

template <class Launch>
void with_way(const pool_problem& p, bool aligned, Launch launch) {
  const way how = way_of(p, aligned);
  if (how != way::tiles) return with_column_layout(p, aligned, [&](auto l) { launch(how, l); });
  with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    launch(how, layout<T, vector_of<T>, memory_order::nchw>{});
  });
}

template <class Layout>
void launch_columns(launch_site where, const raw_operands& data, const pool_problem& p, const strips& along,
                    const cover& c) {
  const auto operands = data.as<typename Layout::value, std::uint8_t>();
  if (p.how.window == 2) {
    gather_columns<Layout, 2>
        <<<c.grid, c.block, 0, where.stream>>>(operands, pool_extents_of(p), along, c.positions);
  } else {
    gather_columns<Layout, 3>
        <<<c.grid, c.block, 0, where.stream>>>(operands, pool_extents_of(p), along, c.positions);
  }
}

template <class Layout>
void launch_elements(launch_site where, const raw_operands& data, const pool_problem& p, const strips& along,
                     const cover& c) {
  with_index(p.index_bytes, [&](auto narrow) {
    const auto operands = data.as<typename Layout::value, decltype(narrow)>();
    gather_elements<Layout>
        <<<c.grid, c.block, 0, where.stream>>>(operands, pool_extents_of(p), along, c.positions);
  });
}

template <class Layout>
void launch_spread(launch_site where, const raw_operands& data, const pool_problem& p, const strips& along,
                   const cover& c) {
  if constexpr (Layout::planes && Layout::vector > 1) {
    spread_tiles<Layout><<<c.grid, c.block, 0, where.stream>>>(
        data.as<typename Layout::value, std::uint8_t>(), pool_extents_of(p), along, c.positions);
  }
}

}  // namespace

std::size_t max_pool_backward_workspace(const pool_problem& p) {
  std::int64_t parts = 0;
  for (const bool aligned : {false, true}) {
    with_way(p, aligned, [&](way how, auto l) {
      parts = std::max<std::int64_t>(parts, cover_for<decltype(l)>(p, strips_of(p, how), true).grid.y);
    });
  }
  return static_cast<std::size_t>(parts * p.x.c) * sizeof(sum_of_one);
}

void max_pool_backward(launch_site where, const void* dy, const void* index, const void* y, void* dx,
                       float* db, const pool_problem& p, bool accumulate, float* workspace) {
  const bool aligned = aligned_to(16, dy, y, dx) && aligned_to(8, index);
  const raw_operands data{dy, index, p.how.relu ? y : nullptr, dx, db == nullptr ? nullptr : workspace};
  with_way(p, aligned, [&](way how, auto l) {
    using L = decltype(l);
    const strips along = strips_of(p, how);
    const cover c = cover_for<L>(p, along, db != nullptr);
    if (how == way::tiles) launch_spread<L>(where, data, p, along, c);
    if (how == way::columns) launch_columns<L>(where, data, p, along, c);
    if (how == way::elements) launch_elements<L>(where, data, p, along, c);
    check(cudaGetLastError());
    if (db == nullptr) return;
    launch_combine(where, reinterpret_cast<const sum_of_one*>(workspace), p.x.c, c.grid.y,
                   write_sum{db, accumulate});
  });
}

}  // namespace um::kernels
