#include "backends/cuda/kernels/direct_convolution.cuh"
#include "backends/cuda/kernels/partial_sums.cuh"

namespace um::kernels {
namespace {

// dw[channel of y][k] = sum over pixels of dy[pixel][channel] * input(pixel, k). A warp takes all channels of
// a group and `warp_depths` of k. Warps of a block go over the same patch for other k. Where few warps cover
// all k, runs of warps take other pixels, and each run leaves a partial sum.
constexpr int column_fragments = 4, warp_depths = 8 * column_fragments;
constexpr int max_warps = 8;        // most warps of a block
constexpr int resident_blocks = 2;  // blocks that fit on a multiprocessor; registers limit them

struct work_division {
  int groups = 1;       // groups of channels of y, a row of the grid each
  int depth_warps = 1;  // warps of a block that differ in k
  int depth_blocks = 1;
  int pixel_warps = 1;
  int blocks = 1;  // blocks that share the tiles

  int threads() const { return depth_warps * pixel_warps * warp_threads; }
  __host__ __device__ int depths() const { return depth_blocks * depth_warps * warp_depths; }
  int partials() const { return blocks * pixel_warps; }
};

// The number of fragments of 16 channels of y.
int row_fragments_of(const direct_convolution& of) {
  return of.y.c % 64 == 0 ? 4 : 2;
}

direct_form form_of(const direct_convolution& of) {
  return direct_form_within(of, 1, 32 * 1024);
}

work_division work_division_of(const direct_convolution& of, int multiprocessors) {
  const direct_form f = form_of(of);
  work_division d;
  d.groups = static_cast<int>(of.y.c) / (16 * row_fragments_of(of));
  const auto depth_warps = static_cast<int>(divide_up(f.depth(), warp_depths));
  d.depth_blocks = static_cast<int>(divide_up(depth_warps, max_warps));
  d.depth_warps = static_cast<int>(divide_up(depth_warps, d.depth_blocks));
  d.pixel_warps = max_warps / d.depth_warps;
  const int resident = std::max(1, std::min(resident_blocks * max_warps / (d.depth_warps * d.pixel_warps),
                                            direct_shared_bytes / f.patch_bytes()));
  d.blocks = static_cast<int>(std::min<std::int64_t>(
      f.tiles, divide_up(std::int64_t{multiprocessors} * resident, d.groups * d.depth_blocks)));
  return d;
}

// A lane's gradients of one step of `mma_depth` pixels: from pixel 4 t on in bf16, of pixels t and t + 4 in
// f32. Of each pixel it has 2 * Rows channels, in vectors of neighbours; those of all g lie side by side. Row
// r of fragment i, where g = r % 8, is the lane's value 2 i + (r / 8).
template <class T, int Rows>
struct gradient_fragments {
  static constexpr int pixels = sizeof(T) == 4 ? 2 : 4;
  static constexpr int values = 2 * Rows, width = values < vector_of<T> ? values : vector_of<T>;
  static constexpr int vector_words = width * static_cast<int>(sizeof(T)) / 4;
  std::uint32_t word[pixels][values / width * vector_words];

  // `g`: lane / 4.
  __device__ static int channel_of(int g, int value) {
    return value / width * 8 * width + g * width + value % width;
  }
  // `dy` points to the lane's first pixel. `columns` are left in the row; pixels beyond are zeros.
  __device__ void load_from(const T* dy, int columns, int channels) {
    constexpr int apart = sizeof(T) == 4 ? 4 : 1;
#pragma unroll
    for (int p = 0; p < pixels; ++p) {
#pragma unroll
      for (int v = 0; v < values / width; ++v) {
        bits<T, width> vector{};
        if (p * apart < columns) vector = load<width>(dy + p * apart * channels + v * 8 * width);
        memcpy(word[p] + v * vector_words, &vector, sizeof vector);
      }
    }
  }
  __device__ void fragment(int i, std::uint32_t (&a)[4]) const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        a[2 * p] = to_tf32(__uint_as_float(word[p][2 * i]));
        a[2 * p + 1] = to_tf32(__uint_as_float(word[p][2 * i + 1]));
      }
    } else {
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        a[2 * p] = __byte_perm(word[2 * p][i], word[2 * p + 1][i], 0x5410);
        a[2 * p + 1] = __byte_perm(word[2 * p][i], word[2 * p + 1][i], 0x7632);
      }
    }
  }
};

template <class T, int Rows>
__global__ void __launch_bounds__(max_warps* warp_threads, resident_blocks)
    filter_gradient(direct_form f, work_division d, const T* x, const T* dy, float* partials) {
  extern __shared__ uint4 shared[];
  auto* const patch = reinterpret_cast<std::uint32_t*>(shared);
  constexpr int step_pixels = mma_depth<T>, steps_of_row = tile_columns / step_pixels;
  constexpr int lane_pixels = sizeof(T) == 4 ? 1 : 4;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const int pixel_warp = warp / d.depth_warps;
  const int first_depth = (static_cast<int>(blockIdx.z) * d.depth_warps + warp % d.depth_warps) * warp_depths;
  const int depth = f.channels * f.taps_h * f.taps_w;
  const int pixel_step = f.stride_w * f.channels, first_pixel = t * lane_pixels;
  int offset[column_fragments];  // depths beyond the filter's repeat the last; their sums are dropped
#pragma unroll
  for (int j = 0; j < column_fragments; ++j)
    offset[j] = f.patch_offset(min(first_depth + 8 * j + g, depth - 1)) + first_pixel * pixel_step;
  // The second register has pixel t + 4 of f32, or pixels 4 t + 2 and 4 t + 3 of bf16.
  const int second = (sizeof(T) == 4 ? 4 : 2) * pixel_step;

  float sums[Rows][column_fragments][4]{};
  const T* const lane_dy =
      dy + static_cast<int>(blockIdx.y) * 16 * Rows + gradient_fragments<T, Rows>::channel_of(g, 0);
  for (std::int64_t tile = blockIdx.x; tile < f.tiles; tile += gridDim.x) {
    const tile_position at = position_of(f, tile);
    const int rows = min(f.rows, f.result_height - at.row);
    const int columns = f.result_width - at.column - first_pixel;
    const T* const tile_dy = lane_dy + ((std::int64_t{at.image} * f.result_height + at.row) * f.result_width +
                                        at.column + first_pixel) *
                                           f.result_channels;
    const auto load_step = [&](int row, int step, gradient_fragments<T, Rows>& to) {
      const int left = row < rows ? columns - step * step_pixels : 0;
      to.load_from(tile_dy + (row * f.result_width + step * step_pixels) * f.result_channels, left,
                   f.result_channels);
    };
    gradient_fragments<T, Rows> now, next;
    load_step(pixel_warp, 0, next);
    __syncthreads();
    load_patch(f, x, at, pixel_step, patch);
    __syncthreads();
    for (int row = pixel_warp; row < rows; row += d.pixel_warps) {
      const std::uint32_t* const inputs = patch + row * f.stride_h * f.patch_columns * f.channels;
#pragma unroll
      for (int step = 0; step < steps_of_row; ++step) {
        now = next;
        load_step(step + 1 < steps_of_row ? row : row + d.pixel_warps, (step + 1) % steps_of_row, next);
        std::uint32_t b[column_fragments][2];
#pragma unroll
        for (int j = 0; j < column_fragments; ++j) {
          const std::uint32_t* const from = inputs + step * step_pixels * pixel_step + offset[j];
          b[j][0] = from[0];
          b[j][1] = from[second];
        }
#pragma unroll
        for (int i = 0; i < Rows; ++i) {
          std::uint32_t a[4];
          now.fragment(i, a);
#pragma unroll
          for (int j = 0; j < column_fragments; ++j) multiply_add<T>(sums[i][j], a, b[j]);
        }
      }
    }
  }
  const std::int64_t partial = std::int64_t{blockIdx.x} * d.pixel_warps + pixel_warp;
  float* const to = partials + ((partial * d.groups + blockIdx.y) * 16 * Rows) * d.depths();
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int channel = gradient_fragments<T, Rows>::channel_of(g, 2 * i + half);
#pragma unroll
      for (int j = 0; j < column_fragments; ++j) {
        const float pair[2]{sums[i][j][2 * half], sums[i][j][2 * half + 1]};
        store<2>(to + channel * d.depths() + first_depth + 8 * j + 2 * t, pack<float, 2>(pair));
      }
    }
  }
}

template <class T, int Rows>
void launch(launch_site where, const direct_convolution& of, const T* x, const T* dy, float* dw, bool add,
            float* partials) {
  const direct_form f = form_of(of);
  const work_division d = work_division_of(of, where.multiprocessors);
  const dim3 grid(static_cast<unsigned>(d.blocks), static_cast<unsigned>(d.groups),
                  static_cast<unsigned>(d.depth_blocks));
  launch_with(where, f.patch_bytes(), filter_gradient<T, Rows>, grid,
              dim3(static_cast<unsigned>(d.threads())), f, d, x, dy, partials);
  sum_partials(where, partials, d.partials(), static_cast<int>(element_count(of.w)), f.depth(), d.depths(),
               dw, add);
}

}  // namespace

bool direct_filter_gradient_fits(const direct_convolution& of) {
  if (!direct_applies_to(of)) return false;
  const direct_form f = form_of(of);
  return f.tiles < std::int64_t{1} << 31 && f.patch_bytes() <= direct_shared_bytes;
}

std::size_t direct_filter_gradient_workspace(int multiprocessors, const direct_convolution& of) {
  const work_division d = work_division_of(of, multiprocessors);
  return static_cast<std::size_t>(d.partials()) * static_cast<std::size_t>(of.y.c) *
         static_cast<std::size_t>(d.depths()) * sizeof(float);
}

void direct_filter_gradient(launch_site where, const direct_convolution& of, const void* x, const void* dy,
                            float* dw, bool add, float* workspace) {
  with_type(of.type, [&](auto type) {
    using T = decltype(type);
    const auto *const xs = static_cast<const T*>(x), *const dys = static_cast<const T*>(dy);
    if (row_fragments_of(of) == 4) {
      launch<T, 4>(where, of, xs, dys, dw, add, workspace);
    } else {
      launch<T, 2>(where, of, xs, dys, dw, add, workspace);
    }
  });
}

}  // namespace um::kernels
