#include "backends/cuda/kernels/direct_convolution.cuh"

namespace um::kernels {
namespace {

constexpr int fragments = tile_columns / 16;  // fragments of pixels; a warp takes a row of a tile at a time
constexpr int warps = 8, threads = warps * warp_threads;
constexpr int resident_blocks = 2;  // limited by registers

// A column fragment holds 8 output channels. Channels are permuted among `run_fragments` fragments, so that a
// lane stores 16 contiguous bytes and the 4 lanes of a pixel store 64.
template <class T>
inline constexpr int run_fragments = vector_of<T> / 2;
// Returns the channel of column q of fragment j.
template <class T>
__device__ int channel_of(int j, int q) {
  constexpr int run = run_fragments<T>;
  return j / run * 4 * vector_of<T> + q / 2 * vector_of<T> + j % run * 2 + q % 2;
}

// A filter's rows lie one after the other. Zeros fill up each to whole words, so that the patch's values
// there are multiplied by zero.
template <class T>
struct padded_filter_depth {
  int row_depth, padded_row_depth, padded_depth;

  __host__ __device__ explicit padded_filter_depth(const direct_form& f)
      : row_depth(f.taps_w * f.channels),
        padded_row_depth((row_depth + factors_of_word<T> - 1) / factors_of_word<T> * factors_of_word<T>),
        padded_depth(f.taps_h * padded_row_depth) {}
  __host__ __device__ int steps() const { return (padded_depth + mma_depth<T> - 1) / mma_depth<T>; }
};

// Shared memory holds, in order: the filter's fragments, the patch offset of every word of filter depth, the
// biases, the patch.
template <class T>
struct shared_layout {
  int offsets, biases, patch, bytes;

  __host__ __device__ shared_layout(const direct_form& f, int columns) {
    const int steps = padded_filter_depth<T>(f).steps();
    offsets = steps * columns * warp_threads * 8;
    biases = offsets + steps * 32;
    patch = biases + 8 * columns * 4;
    bytes = patch + f.patch_rows * f.patch_columns * f.channels * 4;
  }
};

// The two words of the filter that a lane needs lie side by side in shared memory.
template <class T, int Columns>
__device__ void load_filter(const direct_form& f, const T* w, std::uint32_t* to) {
  const padded_filter_depth<T> d(f);
  const T* const group = w + std::int64_t{blockIdx.y} * 8 * Columns * d.row_depth * f.taps_h;
  for (int i = static_cast<int>(threadIdx.x); i < d.steps() * Columns * warp_threads * 2; i += threads) {
    const int word = i % 2, lane = i / 2 % warp_threads, j = i / 2 / warp_threads % Columns;
    const int step = i / 2 / warp_threads / Columns;
    const int k = step * mma_depth<T> + (word * 4 + lane % 4) * factors_of_word<T>;
    const T* const of_channel = group + channel_of<T>(j, lane / 4) * d.row_depth * f.taps_h;
    const auto element = [&](int at) {
      const bool real = at < d.padded_depth && at % d.padded_row_depth < d.row_depth;
      return real ? of_channel[at / d.padded_row_depth * d.row_depth + at % d.padded_row_depth] : T{};
    };
    to[i] = fragment_word(element(k), element(k + 1));
  }
}

template <class T>
__device__ void load_patch_offsets(const direct_form& f, int* to) {
  const padded_filter_depth<T> d(f);
  const int words = d.steps() * mma_depth<T> / factors_of_word<T>;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += threads) {
    const int k = i * factors_of_word<T>;
    to[i] = k < d.padded_depth
                ? k / d.padded_row_depth * f.patch_columns * f.channels + k % d.padded_row_depth
                : 0;
  }
}

// Writes a lane's channels of one pixel: columns `first` and first + 1 of every fragment.
template <class T, int Columns>
__device__ void store_pixel(const float (&sums)[Columns][4], int first, T* to) {
  constexpr int run = run_fragments<T>;
#pragma unroll
  for (int v = 0; v < Columns / run; ++v) {
    float part[vector_of<T>];
#pragma unroll
    for (int i = 0; i < vector_of<T>; ++i) part[i] = sums[v * run + i / 2][first + i % 2];
    store<vector_of<T>>(to + v * 4 * vector_of<T>, pack<T, vector_of<T>>(part));
  }
}

// Adds the products of a row of pixels. `pixel` is the first of row g of a fragment; `offsets` and `filter`
// are those of the lane.
template <class T, int Columns>
__device__ void multiply(int pixel_step, int steps, const std::uint32_t* pixel, const int* offsets,
                         const uint2* filter, float (&sums)[fragments][Columns][4]) {
  for (int step = 0; step < steps; ++step) {
    const int low = offsets[step * 8], high = offsets[step * 8 + 4];
    std::uint32_t a[fragments][4];
#pragma unroll
    for (int m = 0; m < fragments; ++m) {
      const std::uint32_t *const upper = pixel + m * 16 * pixel_step, *const lower = upper + 8 * pixel_step;
      a[m][0] = upper[low];
      a[m][1] = lower[low];
      a[m][2] = upper[high];
      a[m][3] = lower[high];
    }
#pragma unroll
    for (int j = 0; j < Columns; ++j) {
      const uint2 word = filter[(step * Columns + j) * warp_threads];
      const std::uint32_t column[2]{word.x, word.y};
#pragma unroll
      for (int m = 0; m < fragments; ++m) multiply_add<T>(sums[m][j], a[m], column);
    }
  }
}

template <class T, int Columns>
__global__ void __launch_bounds__(threads, resident_blocks)
    forward(direct_form f, const T* x, const T* w, const float* b, bool relu, T* y) {
  extern __shared__ uint4 shared[];
  auto* const at_zero = reinterpret_cast<std::byte*>(shared);
  const shared_layout<T> layout(f, Columns);
  auto* const filter = reinterpret_cast<std::uint32_t*>(at_zero);
  auto* const offsets = reinterpret_cast<int*>(at_zero + layout.offsets);
  auto* const biases = reinterpret_cast<float*>(at_zero + layout.biases);
  auto* const patch = reinterpret_cast<std::uint32_t*>(at_zero + layout.patch);
  const int group = static_cast<int>(blockIdx.y) * 8 * Columns;
  load_filter<T, Columns>(f, w, filter);
  load_patch_offsets<T>(f, offsets);
  for (int i = static_cast<int>(threadIdx.x); i < 8 * Columns; i += threads)
    biases[i] = b == nullptr ? 0.0F : b[group + i];

  const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const int steps = padded_filter_depth<T>(f).steps(), pixel_step = f.stride_w * f.channels;
  T* const lane_y = y + group + t * vector_of<T>;
  for (std::int64_t tile = blockIdx.x; tile < f.tiles; tile += gridDim.x) {
    const tile_position at = position_of(f, tile);
    __syncthreads();
    load_patch(f, x, at, 1, patch);
    __syncthreads();
    for (int r = warp; r < f.rows && at.row + r < f.result_height; r += warps) {
      float sums[fragments][Columns][4];
#pragma unroll
      for (int i = 0; i < 4 * Columns * fragments; ++i) {
        const int j = i / 4 % Columns, m = i / 4 / Columns;
        sums[m][j][i % 4] = biases[channel_of<T>(j, 2 * t + i % 2)];
      }
      multiply<T, Columns>(pixel_step, steps,
                           patch + r * f.stride_h * f.patch_columns * f.channels + g * pixel_step,
                           offsets + t, reinterpret_cast<const uint2*>(filter) + lane, sums);
      if (relu) {
#pragma unroll
        for (int i = 0; i < 4 * Columns * fragments; ++i) {
          float& sum = sums[i / 4 / Columns][i / 4 % Columns][i % 4];
          sum = fmaxf(sum, 0.0F);
        }
      }
      const std::int64_t line = (std::int64_t{at.image} * f.result_height + at.row + r) * f.result_width;
      T* const to = lane_y + (line + at.column + g) * f.result_channels;
#pragma unroll
      for (int i = 0; i < 2 * fragments; ++i) {
        if (at.column + i * 8 + g < f.result_width)
          store_pixel<T, Columns>(sums[i / 2], i % 2 * 2, to + i * 8 * f.result_channels);
      }
    }
  }
}

direct_form form_of(const direct_convolution& of) {
  return direct_form_within(of, warps, 32 * 1024);
}

int columns_of(const direct_convolution& of) {
  return of.y.c % 64 == 0 ? 8 : 4;
}

template <class T, int Columns>
void launch(launch_site where, const direct_convolution& of, const T* x, const T* w, const float* b, T* y) {
  const direct_form f = form_of(of);
  const int bytes = shared_layout<T>(f, Columns).bytes;
  const int groups = static_cast<int>(of.y.c) / (8 * Columns);
  const int resident = where.multiprocessors * std::clamp(direct_shared_bytes / bytes, 1, resident_blocks);
  const dim3 grid(static_cast<unsigned>(std::min<std::int64_t>(f.tiles, divide_up(resident, groups))),
                  static_cast<unsigned>(groups));
  launch_with(where, bytes, forward<T, Columns>, grid, dim3(threads), f, x, w, b, of.attributes.relu, y);
}

}  // namespace

bool direct_forward_fits(const direct_convolution& of) {
  if (!direct_applies_to(of)) return false;
  const direct_form f = form_of(of);
  const int columns = columns_of(of);
  return f.tiles < std::int64_t{1} << 31 &&
         (of.type == dtype::f32 ? shared_layout<float>(f, columns).bytes
                                : shared_layout<bf16>(f, columns).bytes) <= direct_shared_bytes;
}

void direct_forward(launch_site where, const direct_convolution& of, const void* x, const void* w,
                    const float* b, void* y) {
  with_type(of.type, [&](auto type) {
    using T = decltype(type);
    const auto *const xs = static_cast<const T*>(x), *const ws = static_cast<const T*>(w);
    if (columns_of(of) == 8) {
      launch<T, 8>(where, of, xs, ws, b, static_cast<T*>(y));
    } else {
      launch<T, 4>(where, of, xs, ws, b, static_cast<T*>(y));
    }
  });
}

}  // namespace um::kernels
