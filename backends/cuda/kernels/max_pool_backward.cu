// One thread writes each element of dx: it gathers the element from the windows over it. So no two threads
// add to one place, and the order of a sum is fixed. The bias gradient sums up windows; of the threads that
// read a window one counts it.
#include "backends/cuda/kernels/pool.cuh"

namespace um::kernels {
namespace {

template <class T, class Index>
struct gradient_operands {
  const T* __restrict__ dy;
  const Index* __restrict__ index;
  const T* __restrict__ y;  // null if there is no ReLU
  T* __restrict__ dx;
  single_sum* partial;  // null if there is no bias gradient
};

// N neighbouring windows, in the order of memory.
template <class T, int N, class Index>
struct pooled_windows {
  bits<T, N> dy, y;
  bits<Index, N> index;
};

template <bool Masked, int N, class T, class Index>
__device__ pooled_windows<T, N, Index> read_windows(const gradient_operands<T, Index>& from,
                                                    std::int64_t at) {
  pooled_windows<T, N, Index> w;
  w.dy = load<N>(from.dy + at);
  w.index = load<N>(from.index + at);
  if constexpr (Masked) w.y = load<N>(from.y + at);
  return w;
}

// Unpacks the gradients of windows (0 where y is 0 or `valid` is false) and the positions of their maxima.
template <bool Masked, class T, int N, class Index>
__device__ void unpack_windows(const pooled_windows<T, N, Index>& w, bool valid, float (&g)[N],
                               int (&position)[N]) {
  unpack<T, N>(w.dy, g);
  Index narrow[N];
  memcpy(narrow, &w.index, sizeof narrow);
  float y[N];
  if constexpr (Masked) unpack<T, N>(w.y, y);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    position[i] = narrow[i];
    g[i] = valid && (!Masked || y[i] > 0.0F) ? g[i] : 0.0F;
  }
}

template <class Layout, class Index>
__device__ void write_bias_sums(const gradient_operands<typename Layout::value, Index>& data,
                                const float (&db)[Layout::channels], std::int64_t channels) {
  if (data.partial == nullptr) return;
  single_sum mine[Layout::channels];
#pragma unroll
  for (int i = 0; i < Layout::channels; ++i) mine[i].value = db[i];
  combine_sums_of_block<Layout>(mine, data.partial + blockIdx.y * channels, channels);
}

// --- windows of 2 or 3, two apart ---
//
// Positions count from the padding's edge on. Step a of a strip has window row a. It covers positions 2a and
// 2a + 1 and, for windows of 3, position 2a + 2, which the next step writes. Likewise window column b covers
// 2b, 2b + 1 and 2b + 2. A thread has the positions of one window column or, where threads lie along
// positions, one of the two.

template <class Layout, int Window, bool Masked, class Index>
class gathering_strip {
 public:
  using T = typename Layout::value;
  static constexpr int N = Layout::vector;
  static constexpr int width = Layout::is_planar ? 1 : 2;  // positions of a thread in a row

  __device__ gathering_strip(const gradient_operands<T, Index>& data, const pool_extents& e, const strip& s,
                             std::int64_t channel)
      : data_(data),
        e_(e),
        x_(e.channels, e.x_h, e.x_w, s.sample, channel),
        y_(e.channels, e.y_h, e.y_w, s.sample, channel),
        column_(s.column * width - e.pad_left) {
    const int b = s.column * width / 2;
    odd_ = width == 1 ? s.column % 2 : 0;
    has_own_ = b < e.y_w;
    has_before_ = Window == 3 && odd_ == 0 && b > 0 && b <= e.y_w;
    own_at_ = min(b, e.y_w - 1) * y_.column;
    before_at_ = max(b - 1, 0) * y_.column;
  }

  // Walks over rows [begin, end) of windows, and over the one before, which reaches into the first.
  __device__ void walk(int begin, int end, float (&db)[Layout::channels]) {
    constexpr int back = Window == 3 ? 1 : 0;
    read_row(begin - back);
    for (int a = begin - back; a < end; ++a) {
      const pooled_windows<T, N, Index> current = own_, before = before_;
      if (a + 1 < end) read_row(a + 1);
      const bool inside = a >= 0 && a < e_.y_h;
      unpack_windows<Masked>(current, inside && has_own_, g_own_, at_own_);
      if (Window == 3) unpack_windows<Masked>(before, inside && has_before_, g_before_, at_before_);
      if (a >= begin) {
        gather_and_write_row(2 * a - e_.pad_above, 0);
        clear();
        gather_and_write_row(2 * a + 1 - e_.pad_above, Window);
        if (odd_ == 0) add_to_bias(db);
      }
      clear();
      if (Window == 3) gather(2 * Window);
    }
  }

 private:
  __device__ void read_row(int a) {
    const std::int64_t row = y_.base + min(max(a, 0), e_.y_h - 1) * y_.row;
    own_ = read_windows<Masked, N>(data_, row + own_at_);
    if (Window == 3) before_ = read_windows<Masked, N>(data_, row + before_at_);
  }
  __device__ void clear() {
#pragma unroll
    for (int c = 0; c < width; ++c) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum_[c][i] = 0.0F;
    }
  }
  // Adds the gradients of windows whose maximum is in the thread's columns, in the order of columns. The row
  // of windows begins at position `first`.
  __device__ void gather(int first) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (Window == 3 && at_before_[i] == first + 2) sum_[0][i] += g_before_[i];
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (at_own_[i] == first + c + odd_) sum_[c][i] += g_own_[i];
      }
    }
  }
  __device__ void gather_and_write_row(int row, int first) {
    gather(first);
    if (row < 0 || row >= e_.x_h) return;
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (column_ + c < 0 || column_ + c >= e_.x_w) continue;
      store<N>(data_.dx + x_(row, column_ + c), pack<T, N>(sum_[c]));
    }
  }
  __device__ void add_to_bias(float (&db)[Layout::channels]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) db[i % Layout::channels] += g_own_[i];
  }

  const gradient_operands<T, Index>& data_;
  const pool_extents& e_;
  plane_view<Layout> x_, y_;
  int column_, odd_;
  bool has_own_, has_before_;
  std::int64_t own_at_, before_at_;
  pooled_windows<T, N, Index> own_, before_;
  float g_own_[N], g_before_[N] = {}, sum_[width][N] = {};
  int at_own_[N], at_before_[N];
};

// Calls each(strip, channel, sums of the bias gradient) for the thread's strips in its block's share. Then it
// adds the sums up.
template <class Layout, class Operands, class Each>
__device__ void for_strips(const Operands& data, const pool_extents& e, const strips& space,
                           std::int64_t positions, Each&& each) {
  const std::int64_t channel = channel_of_thread<Layout>();
  float db[Layout::channels] = {};
  if (channel < e.channels) {
    const share_of_block share(positions);
    const strip_finder find(space, share.begin);
    for (std::uint32_t local = threadIdx.y; local < share.count; local += blockDim.y)
      each(find(local), channel, db);
  }
  write_bias_sums<Layout>(data, db, e.channels);
}

template <class Layout, int Window, bool Masked, class Index>
__global__ void __launch_bounds__(block_threads)
    gather_strips(gradient_operands<typename Layout::value, Index> data, pool_extents e, strips space,
                  std::int64_t positions) {
  for_strips<Layout>(data, e, space, positions, [&](const strip& s, std::int64_t channel, auto& db) {
    gathering_strip<Layout, Window, Masked, Index>(data, e, s, channel).walk(s.begin, s.end, db);
  });
}

// --- any window ---

// A thread has an element of dx, or a vector of channels, at a time. A window counts at the first of its
// positions that lies in x.
template <class Layout, bool Masked, class Index>
__device__ void gather_element(const gradient_operands<typename Layout::value, Index>& data,
                               const pool_extents& e, const strip& s, std::int64_t channel,
                               float (&db)[Layout::channels]) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector;
  const plane_view<Layout> y(e.channels, e.y_h, e.y_w, s.sample, channel);
  const int h = s.begin + e.pad_above, w = s.column + e.pad_left;
  const int first_row = h < e.window ? 0 : (h - e.window) / e.stride + 1;
  const int first_column = w < e.window ? 0 : (w - e.window) / e.stride + 1;
  const int last_row = min(h / e.stride, e.y_h - 1), last_column = min(w / e.stride, e.y_w - 1);
  float sum[N] = {};
  for (int row = first_row; row <= last_row; ++row) {
    for (int column = first_column; column <= last_column; ++column) {
      const int top = row * e.stride, left = column * e.stride;
      const bool counts = h == max(top, e.pad_above) && w == max(left, e.pad_left);
      const auto here = read_windows<Masked, N>(data, y(row, column));
      float g[N];
      int at[N];
      unpack_windows<Masked>(here, true, g, at);
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

template <class Layout, bool Masked, class Index>
__global__ void __launch_bounds__(block_threads)
    gather_elements_kernel(gradient_operands<typename Layout::value, Index> data, pool_extents e,
                           strips space, std::int64_t positions) {
  for_strips<Layout>(data, e, space, positions, [&](const strip& s, std::int64_t channel, auto& db) {
    gather_element<Layout, Masked>(data, e, s, channel, db);
  });
}

// --- windows of 2x2 side by side in planes: half a vector of windows becomes a vector in two rows ---

template <class Layout, bool Masked, class Index>
__global__ void __launch_bounds__(block_threads)
    spread_tiles(gradient_operands<typename Layout::value, Index> data, pool_extents e, strips space,
                 std::int64_t positions) {
  using T = typename Layout::value;
  constexpr int N = Layout::vector, half = N / 2, at_once = 2;
  const std::int64_t channel = blockIdx.x;
  const share_of_block share(positions);
  const strip_finder find(space, share.begin);
  float db[1] = {};
  for (std::uint32_t local = threadIdx.y; local < share.count; local += at_once * blockDim.y) {
    pooled_windows<T, half, Index> here[at_once];
    T* to[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const strip s = find(min(local + u * blockDim.y, share.count - 1));
      const std::int64_t plane = s.sample * e.channels + channel;
      here[u] = read_windows<Masked, half>(data, (plane * e.y_h + s.begin) * e.y_w + s.column * half);
      to[u] = data.dx + (plane * e.x_h + 2 * s.begin) * e.x_w + s.column * N;
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      if (local + u * blockDim.y >= share.count) break;
      float g[half], rows[2][N];
      int at[half];
      unpack_windows<Masked>(here[u], true, g, at);
#pragma unroll
      for (int i = 0; i < half; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) rows[k / 2][2 * i + k % 2] = at[i] == k ? g[i] : 0.0F;
        db[0] += g[i];
      }
      store<N>(to[u], pack<T, N>(rows[0]));
      store<N>(to[u] + e.x_w, pack<T, N>(rows[1]));
    }
  }
  write_bias_sums<Layout>(data, db, e.channels);
}

// --- launchers ---

struct untyped_operands {
  const void *dy, *index, *y;
  void* dx;
  float* partial;

  template <class T, class Index>
  gradient_operands<T, Index> typed() const {
    return {static_cast<const T*>(dy), static_cast<const Index*>(index), static_cast<const T*>(y),
            static_cast<T*>(dx), reinterpret_cast<single_sum*>(partial)};
  }
};

enum class pool_method { tiles, strips, elements };

pool_method pool_method_of(const max_pool_problem& p, bool aligned) {
  if (aligned && tiles_by_two(p)) return pool_method::tiles;
  return has_own_kernel(p.attributes) ? pool_method::strips : pool_method::elements;
}

// The positions that a launch covers.
strips pool_positions_of(const max_pool_problem& p, pool_method method, bool planes) {
  if (method == pool_method::tiles) return {p.x.n, p.y.h, p.x.w / (p.type == dtype::bf16 ? 8 : 4), 1};
  if (method == pool_method::elements) return {p.x.n, p.x.h, p.x.w, 1};
  const std::int64_t rows = std::max(divide_up(p.x.h + p.pad_above, 2), p.y.h);
  const std::int64_t columns = std::max(divide_up(p.x.w + p.attributes.pad, 2), p.y.w);
  return {p.x.n, rows, planes ? 2 * columns : columns, p.attributes.window == 3 ? 8 : 4};
}

template <class Layout>
grid_cover cover_for(const max_pool_problem& p, const strips& space, bool sums) {
  const std::int64_t blocks = sums ? 1056 : std::numeric_limits<std::int32_t>::max();
  return grid_cover_of<Layout>(p.x.c, space.positions(), blocks, 1);
}

// Calls launch(method, layout) with the layout that the method needs.
template <class Launch>
void with_pool_method(const max_pool_problem& p, bool aligned, Launch launch) {
  const pool_method method = pool_method_of(p, aligned);
  if (method != pool_method::tiles) return with_column_layout(p, aligned, [&](auto l) { launch(method, l); });
  with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    launch(method, layout<T, vector_of<T>, memory_order::nchw>{});
  });
}

struct pool_launcher {
  launch_site where;
  const untyped_operands& data;
  const max_pool_problem& p;
  pool_method method;

  template <class Layout, bool Masked>
  void run(const strips& space, const grid_cover& c) const {
    using T = typename Layout::value;
    const pool_extents e = pool_extents_of(p);
    const auto narrow = data.typed<T, std::uint8_t>();
    const auto run_kernel = [&](auto kernel, const auto& operands) {
      launch(where, kernel, c.grid, c.block, operands, e, space, c.positions);
    };
    if constexpr (Layout::is_planar && Layout::vector > 1) {
      run_kernel(&spread_tiles<Layout, Masked, std::uint8_t>, narrow);
    } else if (method == pool_method::strips) {
      run_kernel(p.attributes.window == 2 ? &gather_strips<Layout, 2, Masked, std::uint8_t>
                                          : &gather_strips<Layout, 3, Masked, std::uint8_t>,
                 narrow);
    } else {
      with_index(p.index_bytes, [&](auto index) {
        using Index = decltype(index);
        run_kernel(&gather_elements_kernel<Layout, Masked, Index>, data.typed<T, Index>());
      });
    }
  }
};

}  // namespace

std::size_t max_pool_backward_workspace(const max_pool_problem& p) {
  std::int64_t parts = 0;
  for (const bool aligned : {false, true}) {
    with_pool_method(p, aligned, [&](pool_method method, auto l) {
      using L = decltype(l);
      parts = std::max<std::int64_t>(
          parts, cover_for<L>(p, pool_positions_of(p, method, L::is_planar), true).grid.y);
    });
  }
  return static_cast<std::size_t>(parts * p.x.c) * sizeof(single_sum);
}

void max_pool_backward(launch_site where, const void* dy, const void* index, const void* y, void* dx,
                       float* db, const max_pool_problem& p, bool accumulate, float* workspace) {
  const bool aligned = aligned_to(16, dy, y, dx) && aligned_to(8, index);
  const untyped_operands data{dy, index, y, dx, db == nullptr ? nullptr : workspace};
  with_pool_method(p, aligned, [&](pool_method method, auto l) {
    using L = decltype(l);
    const strips space = pool_positions_of(p, method, L::is_planar);
    const grid_cover c = cover_for<L>(p, space, db != nullptr);
    const pool_launcher launcher{where, data, p, method};
    if (p.attributes.relu) {
      launcher.run<L, true>(space, c);
    } else {
      launcher.run<L, false>(space, c);
    }
    if (db == nullptr) return;
    launch_combine(where, reinterpret_cast<const single_sum*>(workspace), p.x.c, c.grid.y,
                   write_sum{db, accumulate});
  });
}

}  // namespace um::kernels
