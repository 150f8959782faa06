#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/partial_sums.cuh"

namespace um::kernels {
namespace {

// dw[k][c][r][s] = sum over pixels of dy[k][pixel] * x[c][pixel moved by (r, s)]. A block takes tiles of
// results of one image, for 8 * Channels channels of y. Shared memory holds the dy and x that they need. A
// thread holds sums of some of these channels for one or a few rows of taps, and goes over runs of pixels.
// One read of x for a run serves all its channels and taps. Eight neighbouring threads differ in channels,
// the next eight in rows of taps, the rest in runs.
constexpr int channel_groups = 8;
constexpr int run = 4;  // pixels in a run, which lie in one row
constexpr int tile_columns = 32, max_tile_rows = 4;
constexpr int shared_floats = 12 * 1024;  // floats of a tile at most; two blocks hold two tiles each
static_assert(tile_columns <= warp_threads);

template <int Taps, int Stride>
struct launch_constants {
  static constexpr int tap_rows = Taps == 3 ? 3 : 1;  // rows of taps of a thread
  static constexpr int vectors =
      static_cast<int>(divide_up((run - 1) * Stride + Taps, 4));  // vectors of x that a run loads
  // Registers limit the threads of a block and the blocks of a multiprocessor.
  static constexpr int max_threads = Taps == 3 ? 192 : Taps == 7 ? 352 : 288;
  static constexpr int resident = Taps == 3 ? 2 : 1;
};

// Returns the smallest number that is at least `floats` and leaves `rest` when divided by `of`.
constexpr int smallest_congruent(int floats, int of, int rest) {
  return (floats - rest + of - 1) / of * of + rest;
}

struct planar_form {
  int height = 0, width = 0, channels = 0, taps = 0;  // extents of x; filters are taps x taps
  int result_height = 0, result_width = 0, result_channels = 0;
  int stride = 0, pad_h = 0, pad_w = 0;
  int columns = 0, rows = 0;            // size of a tile of results
  int result_pitch = 0;                 // floats of a row of dy, without bank conflicts of eight channels
  int patch_rows = 0, patch_pitch = 0;  // rows of x, and floats of one, without bank conflicts of four rows
  int floats = 0;                       // shared memory of a tile, dy and x
  bool has_aligned_rows = false;        // dy's rows are aligned to 16 bytes
  int splits = 1;                       // groups of threads that share a tile's runs
  std::int64_t tiles = 0;
  divisor tile_rows{1}, tiles_across{1}, runs_of_row{1};

  int depth() const { return channels * taps * taps; }
};

template <int Channels>
constexpr int block_channels = channel_groups * Channels;

// Returns false if a tile of one row needs too much shared memory, or the filter too many threads.
template <int Taps, int Stride, int Channels>
bool fill_form_if_it_fits(const direct_convolution& of, planar_form& f) {
  using constants = launch_constants<Taps, Stride>;
  f.tiles_across = divisor(divide_up(of.y.w, tile_columns));
  f.columns = smallest_congruent(static_cast<int>(divide_up(of.y.w, f.tiles_across.value)), run, 0);
  f.result_pitch = smallest_congruent(f.columns, warp_threads, 4);
  f.patch_pitch = smallest_congruent((f.columns - run) * Stride + 4 * constants::vectors, 8, 4);
  const auto patch_rows_of = [&](int rows) { return (rows - 1) * f.stride + f.taps; };
  const auto floats = [&](int rows) {
    return rows * block_channels<Channels> * f.result_pitch +
           f.channels * patch_rows_of(rows) * f.patch_pitch;
  };
  f.rows = max_tile_rows;
  while (f.rows > 1 && floats(f.rows) > shared_floats) f.rows /= 2;
  f.patch_rows = patch_rows_of(f.rows);
  f.floats = floats(f.rows);
  const int threads = channel_groups * f.channels * f.taps / constants::tap_rows;
  if (f.floats > shared_floats || threads > constants::max_threads) return false;
  const bool sums_fit = block_channels<Channels> * f.depth() <= shared_floats;
  f.splits = sums_fit ? constants::max_threads / threads : 1;
  f.tile_rows = divisor(divide_up(of.y.h, f.rows));
  f.runs_of_row = divisor(f.columns / run);
  f.tiles = of.y.n * f.tile_rows.value * f.tiles_across.value;
  return true;
}

struct tile_position {
  int image, row, column;  // place of its first result
};
__device__ tile_position position_of(const planar_form& f, std::int64_t tile) {
  auto rest = static_cast<std::uint32_t>(tile);
  const auto column = static_cast<int>(f.tiles_across.take_remainder(rest));
  const auto row = static_cast<int>(f.tile_rows.take_remainder(rest));
  return {static_cast<int>(rest), row * f.rows, column * f.columns};
}

// Copies some floats to shared memory, or writes zeros. The copy is asynchronous where the hardware can do
// that; wait_for_shared_copies() waits for it.
template <int Floats>
__device__ void copy_or_zero(float* to, const float* from, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copy_async<Floats>(static_cast<std::uint32_t>(__cvta_generic_to_shared(to)), from, valid);
#else
  for (int i = 0; i < Floats; ++i) to[i] = valid ? from[i] : 0.0F;
#endif
}
// Waits until the block's copies have arrived and its threads are done with earlier work.
__device__ inline void wait_for_shared_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  wait_for_copies();
#endif
  __syncthreads();
}

// Results lie as [row][channel][column]. Beyond the result are zeros.
template <int Channels, int Floats>
__device__ void load_results(const planar_form& f, const float* dy, const tile_position& at, float* to) {
  constexpr int lines_of_row = block_channels<Channels>;
  constexpr int lanes_of_line = tile_columns / Floats;
  const int i = static_cast<int>(threadIdx.x) % lanes_of_line * Floats;
  if (i >= f.columns) return;
  const std::int64_t plane = std::int64_t{f.result_height} * f.result_width;
  const float* const from = dy +
                            (std::int64_t{at.image} * f.result_channels + blockIdx.y * lines_of_row) * plane +
                            std::int64_t{at.row} * f.result_width + at.column + i;
  const bool inside = at.column + i < f.result_width;
#pragma unroll 4
  for (int line = static_cast<int>(threadIdx.x) / lanes_of_line; line < f.rows * lines_of_row;
       line += static_cast<int>(blockDim.x) / lanes_of_line) {
    const int row = line / lines_of_row, channel = line % lines_of_row;
    const bool valid = inside && at.row + row < f.result_height;
    copy_or_zero<Floats>(to + line * f.result_pitch + i,
                         valid ? from + channel * plane + row * f.result_width : dy, valid);
  }
}

// Inputs lie as [channel][row][column]. Outside of the image are zeros.
__device__ inline void load_inputs(const planar_form& f, const float* x, const tile_position& at, float* to) {
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warps = static_cast<int>(blockDim.x) / warp_threads;
  const int top = at.row * f.stride - f.pad_h, left = at.column * f.stride - f.pad_w;
  const float* const image = x + std::int64_t{at.image} * f.channels * f.height * f.width;
  for (int line = warp; line < f.channels * f.patch_rows; line += warps) {
    const int channel = line / f.patch_rows, row = top + line % f.patch_rows;
    const bool inside = row >= 0 && row < f.height;
    const float* const from = image + (std::int64_t{channel} * f.height + row) * f.width + left;
    for (int i = lane; i < f.patch_pitch; i += warp_threads) {
      const bool valid = inside && left + i >= 0 && left + i < f.width;
      copy_or_zero<1>(to + line * f.patch_pitch + i, valid ? from + i : x, valid);
    }
  }
}

template <int Taps, int Stride, int Channels>
__global__ void __launch_bounds__(launch_constants<Taps, Stride>::max_threads,
                                  launch_constants<Taps, Stride>::resident)
    planar_gradient(planar_form f, const float* x, const float* dy, float* partials) {
  using constants = launch_constants<Taps, Stride>;
  constexpr int tap_rows = constants::tap_rows, vectors = constants::vectors;
#ifdef __CUDACC__
  extern __shared__ float4 shared[];
#else
  static float4 shared[2 * shared_floats / 4];
#endif
  auto* const tiles = reinterpret_cast<float*>(shared);  // two tiles, used in turn
  const int of_results = f.rows * block_channels<Channels> * f.result_pitch;
  const int groups_of_taps = f.channels * f.taps / tap_rows;
  const int group = static_cast<int>(threadIdx.x) % channel_groups;
  const int rest = static_cast<int>(threadIdx.x) / channel_groups;
  const int taps = rest % groups_of_taps * tap_rows, split = rest / groups_of_taps;  // the first row of taps
  const int channel = taps / f.taps, tap_row = taps % f.taps;
  const int my_results = group * f.result_pitch;
  const int my_patch = of_results + (channel * f.patch_rows + tap_row) * f.patch_pitch;
  const auto fetch = [&](std::int64_t tile, float* to) {
    const tile_position at = position_of(f, tile);
    if (f.has_aligned_rows) {
      load_results<Channels, 4>(f, dy, at, to);
    } else {
      load_results<Channels, 1>(f, dy, at, to);
    }
    load_inputs(f, x, at, to + of_results);
  };

  float sums[Channels][tap_rows][Taps]{};
  if (blockIdx.x < f.tiles) fetch(blockIdx.x, tiles);
  int turn = 0;
  for (std::int64_t tile = blockIdx.x; tile < f.tiles; tile += gridDim.x, turn ^= 1) {
    wait_for_shared_copies();
    if (tile + gridDim.x < f.tiles) fetch(tile + gridDim.x, tiles + (turn ^ 1) * f.floats);
    const float* const here = tiles + turn * f.floats;
    const auto runs = f.runs_of_row.value * static_cast<std::uint32_t>(f.rows);
    for (auto i = static_cast<std::uint32_t>(split); split < f.splits && i < runs;
         i += static_cast<std::uint32_t>(f.splits)) {
      std::uint32_t row = i;
      const auto first = static_cast<int>(f.runs_of_row.take_remainder(row)) * run;
      float inputs[tap_rows][4 * vectors];
#pragma unroll
      for (int r = 0; r < tap_rows; ++r) {
        const float* const from =
            here + my_patch + (static_cast<int>(row) * f.stride + r) * f.patch_pitch + first * Stride;
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          const float4 four = *reinterpret_cast<const float4*>(from + 4 * v);
          inputs[r][4 * v] = four.x;
          inputs[r][4 * v + 1] = four.y;
          inputs[r][4 * v + 2] = four.z;
          inputs[r][4 * v + 3] = four.w;
        }
      }
      const float* const of_row =
          here + my_results + static_cast<int>(row) * block_channels<Channels> * f.result_pitch + first;
#pragma unroll
      for (int k = 0; k < Channels; ++k) {
        const float4 four = *reinterpret_cast<const float4*>(of_row + k * channel_groups * f.result_pitch);
        const float gradients[run]{four.x, four.y, four.z, four.w};
#pragma unroll
        for (int p = 0; p < run; ++p) {
#pragma unroll
          for (int r = 0; r < tap_rows; ++r) {
#pragma unroll
            for (int s = 0; s < Taps; ++s) sums[k][r][s] += gradients[p] * inputs[r][p * Stride + s];
          }
        }
      }
    }
  }
  // The splits add their sums one after the other, so that the order is fixed.
  const int depth = f.channels * f.taps * Taps;
  float* const mine =
      partials + (std::int64_t{blockIdx.x} * f.result_channels + blockIdx.y * block_channels<Channels>)*depth;
  float* const to = f.splits > 1 ? tiles : mine;
  for (int s = 0; s < f.splits; ++s) {
    __syncthreads();
    if (split != s) continue;
#pragma unroll
    for (int k = 0; k < Channels; ++k) {
#pragma unroll
      for (int r = 0; r < tap_rows; ++r) {
#pragma unroll
        for (int t = 0; t < Taps; ++t) {
          float& sum = to[(group + k * channel_groups) * depth + (taps + r) * Taps + t];
          sum = s == 0 ? sums[k][r][t] : sum + sums[k][r][t];
        }
      }
    }
  }
  if (f.splits == 1) return;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < block_channels<Channels> * depth;
       i += static_cast<int>(blockDim.x))
    mine[i] = tiles[i];
}

struct planar_launch {
  planar_form form;
  int threads = 0, groups = 0, resident = 0;  // groups of channels of y
  int shared_bytes = 0;
  void (*kernel)(planar_form, const float*, const float*, float*) = nullptr;

  int blocks(int multiprocessors) const {
    return static_cast<int>(
        std::min<std::int64_t>(form.tiles, divide_up(std::int64_t{multiprocessors} * resident, groups)));
  }
};

template <int Taps, int Stride, int Channels>
bool prepare_launch(const direct_convolution& of, planar_launch& l) {
  using constants = launch_constants<Taps, Stride>;
  if (!fill_form_if_it_fits<Taps, Stride, Channels>(of, l.form)) return false;
  const int threads = channel_groups * l.form.channels * l.form.taps / constants::tap_rows * l.form.splits;
  l.threads = smallest_congruent(threads, warp_threads, 0);
  l.groups = l.form.result_channels / block_channels<Channels>;
  l.resident = constants::resident;
  const int sums = l.form.splits > 1 ? block_channels<Channels> * l.form.depth() : 0;
  l.shared_bytes = std::max(2 * l.form.floats, sums) * static_cast<int>(sizeof(float));
  l.kernel = planar_gradient<Taps, Stride, Channels>;
  return true;
}
template <int Taps, int Stride>
bool prepare_for_channels(const direct_convolution& of, planar_launch& l) {
  if (of.y.c % block_channels<8> == 0) return prepare_launch<Taps, Stride, 8>(of, l);
  return of.y.c % block_channels<4> == 0 && prepare_launch<Taps, Stride, 4>(of, l);
}

// Returns false if no kernel supports it.
bool prepare_launch(const direct_convolution& of, planar_launch& l) {
  constexpr std::int64_t max_channels = 4, index_bound = std::int64_t{1} << 31;
  const convolution& attributes = of.attributes;
  if (of.type != dtype::f32 || of.x.c > max_channels || attributes.groups != 1 || of.w.h != of.w.w ||
      attributes.stride_h != attributes.stride_w)
    return false;
  const std::int64_t tiles = of.y.n * of.y.h * divide_up(of.y.w, tile_columns);
  if (tiles >= index_bound || element_count(of.w) >= index_bound) return false;
  planar_form& f = l.form;
  f.height = static_cast<int>(of.x.h);
  f.width = static_cast<int>(of.x.w);
  f.channels = static_cast<int>(of.x.c);
  f.taps = static_cast<int>(of.w.w);
  f.result_height = static_cast<int>(of.y.h);
  f.result_width = static_cast<int>(of.y.w);
  f.result_channels = static_cast<int>(of.y.c);
  f.stride = attributes.stride_w;
  f.pad_h = attributes.pad_h;
  f.pad_w = attributes.pad_w;
  const auto is = [&](int taps, int stride) { return of.w.w == taps && attributes.stride_w == stride; };
  if (is(3, 1)) return prepare_for_channels<3, 1>(of, l);
  if (is(3, 2)) return prepare_for_channels<3, 2>(of, l);
  if (is(7, 2)) return prepare_for_channels<7, 2>(of, l);
  return is(11, 4) && prepare_for_channels<11, 4>(of, l);
}

}  // namespace

bool planar_filter_gradient_fits(const direct_convolution& of) {
  planar_launch l;
  return prepare_launch(of, l);
}

int planar_filter_gradient_shared_bytes(const direct_convolution& of) {
  planar_launch l;
  prepare_launch(of, l);
  return l.shared_bytes;
}

std::size_t planar_filter_gradient_workspace(int multiprocessors, const direct_convolution& of) {
  planar_launch l;
  prepare_launch(of, l);
  return static_cast<std::size_t>(l.blocks(multiprocessors)) * static_cast<std::size_t>(element_count(of.w)) *
         sizeof(float);
}

void planar_filter_gradient(launch_site where, const direct_convolution& of, const float* x, const float* dy,
                            float* dw, bool add, float* workspace) {
  planar_launch l;
  prepare_launch(of, l);
  const int blocks = l.blocks(where.multiprocessors);
  l.form.has_aligned_rows = of.y.w % 4 == 0 && aligned_to(16, dy);
  launch_with(where, l.shared_bytes, l.kernel,
              dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(l.groups)),
              dim3(static_cast<unsigned>(l.threads)), l.form, x, dy, workspace);
  sum_partials(where, workspace, blocks, static_cast<int>(element_count(of.w)), l.form.depth(),
               l.form.depth(), dw, add);
}

}  // namespace um::kernels
