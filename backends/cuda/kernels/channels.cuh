// Passes over a tensor, and sums for each channel. A thread keeps to its channels, so that their values stay
// in registers.
//
// Channels last: a thread owns N neighbouring channels and walks over pixels. Threads of a block lie along
// channels first, then along pixels. Planes: a block owns a channel. Its threads walk over that channel's
// planes, N neighbouring elements at a time.
#pragma once

#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {

template <class T, int N, memory_order Order>
struct layout {
  using value = T;
  static constexpr int vector = N;
  static constexpr bool is_planar = Order == memory_order::nchw;
  static constexpr int channels = is_planar ? 1 : N;  // channels of the elements of a vector
};

// Calls launch(layout) with the widest access that the shape and the alignment of the data allow.
template <class Launch>
void with_layout(const tensor_form& of, bool aligned, Launch launch) {
  const std::int64_t plane = of.shape.h * of.shape.w;
  const bool planes = of.shape.c == 1 || (of.order == memory_order::nchw && plane > 1);
  with_type(of.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int width = vector_of<T>;
    const bool vectors = aligned && (planes ? plane : of.shape.c) % width == 0;
    if (planes && vectors) return launch(layout<T, width, memory_order::nchw>{});
    if (planes) return launch(layout<T, 1, memory_order::nchw>{});
    if (vectors) return launch(layout<T, width, memory_order::nhwc>{});
    launch(layout<T, 1, memory_order::nhwc>{});
  });
}

// A launch that covers `positions` for each group of channels. grid.y cuts them into equal parts.
struct grid_cover {
  dim3 grid, block;
  std::int64_t positions = 0;
};

// `blocks` are wanted. A block has at least `min_positions` positions for each thread. The result depends on
// the shape alone.
template <class Layout>
grid_cover grid_cover_of(std::int64_t channels, std::int64_t positions, std::int64_t blocks,
                         std::int64_t min_positions) {
  grid_cover result;
  result.positions = positions;
  if (Layout::is_planar) {
    result.grid.x = static_cast<unsigned>(channels);
    result.block = dim3(1, block_threads);
  } else {
    // At most 32 threads lie along the channels. A block then covers many positions of few channels, so it
    // writes few sums, and a channel has few sums of blocks to combine.
    const std::int64_t vectors = channels / Layout::vector;
    result.grid.x = static_cast<unsigned>(divide_up(vectors, 32));
    result.block.x = static_cast<unsigned>(divide_up(vectors, result.grid.x));
    result.block.y = block_threads / result.block.x;
  }
  constexpr std::int64_t max_blocks = 65535, max_positions = std::int64_t{1} << 30;
  const std::int64_t worthwhile = divide_up(positions, result.block.y * min_positions);
  const std::int64_t parts = std::clamp<std::int64_t>(blocks / result.grid.x, 1, worthwhile);
  result.grid.y =
      static_cast<unsigned>(std::min(std::max(parts, divide_up(positions, max_positions)), max_blocks));
  return result;
}

// The part of the positions that this block takes.
struct share_of_block {
  std::int64_t begin;
  std::uint32_t count;

  __device__ explicit share_of_block(std::int64_t positions)
      : begin(positions * blockIdx.y / gridDim.y),
        count(static_cast<std::uint32_t>(positions * (blockIdx.y + 1) / gridDim.y - begin)) {}
};

// The thread's first channel. It is `channels` or more if the thread has no work.
template <class Layout>
__device__ std::int64_t channel_of_thread() {
  if (Layout::is_planar) return blockIdx.x;
  return static_cast<std::int64_t>(blockIdx.x * blockDim.x + threadIdx.x) * Layout::vector;
}

// The shape of a tensor, as a walk over the positions of a channel needs it.
struct channel_geometry {
  std::int64_t channels;
  std::int64_t plane;  // elements of a plane
  divisor vectors;     // vectors of a plane, if vectors lie in planes

  template <class Layout>
  static channel_geometry of_shape(const dims& shape) {
    const std::int64_t plane = shape.h * shape.w;
    if (plane >= std::int64_t{1} << 30) {
      throw std::invalid_argument("planes of 2^30 elements or more: " + to_text(shape));
    }
    return {shape.c, plane, divisor(Layout::is_planar ? plane / Layout::vector : 1)};
  }
};

// Computes the offset of position begin + local of the thread's channels.
template <class Layout>
class element_finder {
 public:
  __device__ element_finder(const channel_geometry& of, std::int64_t channel, std::int64_t begin)
      : vectors_(of.vectors), stride_((of.channels - 1) * of.plane) {
    if (Layout::is_planar) {
      const std::int64_t sample = begin / vectors_.value;
      skipped_positions_ = static_cast<std::uint32_t>(begin - sample * vectors_.value);
      base_ = (sample * of.channels + channel) * of.plane;
    } else {
      stride_ = of.channels;
      base_ = begin * of.channels + channel;
    }
  }
  __device__ std::int64_t operator()(std::uint32_t local) const {
    if (!Layout::is_planar) return base_ + local * stride_;
    const std::uint32_t position = skipped_positions_ + local;
    return base_ + static_cast<std::int64_t>(position) * Layout::vector +
           vectors_.quotient(position) * stride_;
  }

 private:
  divisor vectors_;
  std::int64_t stride_;  // elements between a channel's planes, or between pixels
  std::int64_t base_;
  std::uint32_t skipped_positions_ = 0;  // positions of the first plane before the block's first
};

enum class direction { forwards, backwards };

// Calls op.load for Unroll positions before op.apply for the first of them.
template <class Layout, int Unroll, direction Way, class Op, class State>
__device__ void walk(const Op& op, const channel_geometry& of, const share_of_block& share,
                     std::int64_t channel, State& state) {
  const element_finder<Layout> element(of, channel, share.begin);
  for (std::uint32_t first = threadIdx.y; first < share.count; first += Unroll * blockDim.y) {
    std::int64_t at[Unroll];
    typename Op::loaded values[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      const std::uint32_t local = first + u * blockDim.y;
      if (local < share.count) {
        at[u] = element(Way == direction::forwards ? local : share.count - 1 - local);
        values[u] = op.load(at[u]);
      }
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      if (first + u * blockDim.y < share.count) op.apply(at[u], values[u], state);
    }
  }
}

// --- passes that write elements only ---

template <class Layout, int Unroll, direction Way, class Op>
__global__ void __launch_bounds__(block_threads)
    map_channels(Op op, channel_geometry of, std::int64_t positions) {
  const std::int64_t channel = channel_of_thread<Layout>();
  if (channel >= of.channels) return;
  auto state = op.begin(channel);
  walk<Layout, Unroll, Way>(op, of, share_of_block(positions), channel, state);
}

template <class Layout>
std::int64_t positions_of(const dims& shape) {
  return shape.n * shape.h * shape.w / (Layout::is_planar ? Layout::vector : 1);
}

// The number of loads that a thread has in flight. It is twice as large for narrow loads.
template <class Layout>
constexpr int loads_in_flight(int vectors) {
  return Layout::vector == 1 ? 2 * vectors : vectors;
}

// Each thread takes 4 * Unroll positions, so that it loads the channel's parameters once. It takes fewer if
// there would be too few blocks.
template <class Layout, int Unroll, class Op>
void launch_map(launch_site where, const Op& op, const dims& shape) {
  const std::int64_t max_elements_per_block = std::int64_t{block_threads} * Layout::vector * 4 * Unroll;
  const std::int64_t blocks = std::max<std::int64_t>(element_count(shape) / max_elements_per_block, 2112);
  const grid_cover c = grid_cover_of<Layout>(shape.c, positions_of<Layout>(shape), blocks, Unroll);
  launch(where, &map_channels<Layout, Unroll, direction::forwards, Op>, c.grid, c.block, op,
         channel_geometry::of_shape<Layout>(shape), c.positions);
}

// --- sums: a Sum has `plus`, and `Sum{}` is zero ---

struct single_sum {
  float value = 0.0F;
  __device__ static single_sum plus(const single_sum& a, const single_sum& b) { return {a.value + b.value}; }
};
struct sum_pair {
  float first = 0.0F, second = 0.0F;
  __device__ static sum_pair plus(const sum_pair& a, const sum_pair& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

// Returns the Sum of the lane that is `distance` behind this one.
template <class Sum>
__device__ Sum shuffle_down(const Sum& mine, unsigned distance) {
  float words[sizeof(Sum) / sizeof(float)];
  memcpy(words, &mine, sizeof mine);
#pragma unroll
  for (float& word : words) word = __shfl_down_sync(0xffffffffU, word, distance);
  Sum other;
  memcpy(&other, words, sizeof other);
  return other;
}

// Combines the block's sums in a fixed order and writes one for each channel. `to` points to that of channel
// 0. Every thread must call.
template <class Layout, class Sum>
__device__ void combine_sums_of_block(Sum (&mine)[Layout::channels], Sum* to, std::int64_t channels) {
  constexpr int own_channels = Layout::channels;
  // Variables in __shared__ memory have no constructors, so these are floats.
  __shared__ float buffer[block_threads * own_channels * (sizeof(Sum) / sizeof(float))];
  auto* const sums = reinterpret_cast<Sum*>(buffer);
  const unsigned threads = blockDim.x * blockDim.y;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  unsigned rows = blockDim.y, row = threadIdx.y;
  bool writes = true;
  if (32 % blockDim.x == 0 && threads == block_threads) {  // rows of a warp are combined by shuffles
    for (unsigned distance = 16; distance >= blockDim.x; distance /= 2) {
#pragma unroll
      for (Sum& s : mine) s = Sum::plus(s, shuffle_down(s, distance));
    }
    rows = block_threads / 32;
    row = thread / 32;
    writes = thread % 32 < blockDim.x;
  }
  const unsigned width = blockDim.x * own_channels;
  if (writes) {
#pragma unroll
    for (int i = 0; i < own_channels; ++i) sums[row * width + threadIdx.x * own_channels + i] = mine[i];
  }
  __syncthreads();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * width;
  for (unsigned item = thread; item < width; item += threads) {
    if (first + item >= channels) break;
    Sum total = sums[item];
    for (unsigned r = 1; r < rows; ++r) total = Sum::plus(total, sums[r * width + item]);
    to[first + item] = total;
  }
}

template <class Layout, int Unroll, class Op>
__global__ void __launch_bounds__(block_threads)
    reduce_channels(Op op, channel_geometry of, std::int64_t positions, typename Op::sum* partial) {
  const std::int64_t channel = channel_of_thread<Layout>();
  typename Op::sum mine[Layout::channels] = {};
  if (channel < of.channels) {
    const share_of_block share(positions);
    auto state = op.begin(channel);
    walk<Layout, Unroll, direction::forwards>(op, of, share, channel, state);
    op.end(state, mine);
  }
  combine_sums_of_block<Layout>(mine, partial + blockIdx.y * of.channels, of.channels);
}

inline constexpr int combined_channels = 8, combined_rows = 128;

// Row y adds up the parts y, y + 128, ... Then the rows are added up in a fixed order.
template <class Sum, class Finish>
__global__ void __launch_bounds__(combined_channels* combined_rows)
    combine_parts(const Sum* partial, std::int64_t channels, unsigned parts, Finish finish) {
  constexpr int warps = combined_channels * combined_rows / 32;
  __shared__ float buffer[warps * combined_channels * (sizeof(Sum) / sizeof(float))];
  auto* const sums = reinterpret_cast<Sum*>(buffer);
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * combined_channels + threadIdx.x;
  Sum mine{};
  if (channel < channels) {
#pragma unroll 4
    for (unsigned p = threadIdx.y; p < parts; p += combined_rows) {
      mine = Sum::plus(mine, partial[p * channels + channel]);
    }
  }
  for (unsigned distance = 16; distance >= combined_channels; distance /= 2) {
    mine = Sum::plus(mine, shuffle_down(mine, distance));
  }
  const unsigned warp = (threadIdx.y * combined_channels + threadIdx.x) / 32;
  if (threadIdx.y % (32 / combined_channels) == 0) sums[warp * combined_channels + threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (int w = 1; w < warps; ++w) mine = Sum::plus(mine, sums[w * combined_channels + threadIdx.x]);
  finish(channel, mine);
}

template <class Sum, class Finish>
void launch_combine(launch_site where, const Sum* partial, std::int64_t channels, unsigned parts,
                    const Finish& finish) {
  const auto grid = static_cast<unsigned>(divide_up(channels, combined_channels));
  launch(where, &combine_parts<Sum, Finish>, grid, dim3(combined_channels, combined_rows), partial, channels,
         parts, finish);
}

// With channels last there are four blocks for each of 132 multiprocessors, in one wave. With planes, where
// each channel has blocks of its own, there are several waves.
template <class Layout>
grid_cover reduction_cover(std::int64_t channels, std::int64_t positions) {
  return grid_cover_of<Layout>(channels, positions, Layout::is_planar ? 2112 : 528,
                               Layout::is_planar ? 4 : 8);
}

template <class Layout, int Unroll, class Op, class Finish>
void launch_reduction(launch_site where, const Op& op, const dims& shape, float* workspace,
                      const Finish& finish) {
  using sum = typename Op::sum;
  const grid_cover c = reduction_cover<Layout>(shape.c, positions_of<Layout>(shape));
  auto* const partial = reinterpret_cast<sum*>(workspace);
  launch(where, &reduce_channels<Layout, Unroll, Op>, c.grid, c.block, op,
         channel_geometry::of_shape<Layout>(shape), c.positions, partial);
  launch_combine(where, static_cast<const sum*>(partial), shape.c, c.grid.y, finish);
}

// Bytes of workspace of a reduction: enough for every layout that the alignment of the data may allow.
template <class Sum>
std::size_t reduction_workspace(const tensor_form& of) {
  std::int64_t parts = 0;
  for (const bool aligned : {false, true}) {
    with_layout(of, aligned, [&](auto l) {
      using L = decltype(l);
      const grid_cover c = reduction_cover<L>(of.shape.c, positions_of<L>(of.shape));
      parts = std::max<std::int64_t>(parts, c.grid.y);
    });
  }
  return static_cast<std::size_t>(parts * of.shape.c) * sizeof(Sum);
}

struct write_sum {
  float* to;
  bool accumulate;
  __device__ void operator()(std::int64_t channel, const single_sum& total) const {
    to[channel] = accumulate ? to[channel] + total.value : total.value;
  }
};

}  // namespace um::kernels
