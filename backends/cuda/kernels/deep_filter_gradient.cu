#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/direct_convolution.cuh"

namespace um::kernels {
namespace {

// dw[k][tap][c] = sum over pixels of dy[pixel][k] * x[pixel + tap][c]. A block computes `group` channels k by
// `group` channels c for a run of taps, over a share of the pixels. Warp w computes all k and 8 c. Steps load
// x and dy into shared memory: some rows of a segment of an image at a time. Rows of x stay in a ring for the
// taps of the next rows.
constexpr int group = 64;
constexpr int warps = group / 8, threads = warps * warp_threads;
constexpr int pixel_words = group + 4;   // padded, so that the lanes of a fragment read from 32 banks
constexpr int depth = mma_depth<float>;  // pixels of a fragment
constexpr int vector_words = 4, vectors = group / vector_words, pass_pixels = threads / vectors;
constexpr int step_pixels = 128;  // the maximum: enough to hide the loads of the next step
constexpr int max_columns = 56;   // most columns of a segment

struct deep_form {
  int images, height, width, channels;  // extents of x
  int result_height, result_width, result_channels;
  int taps_h, taps_w, pad_h, pad_w;
  int tap_rows;         // rows of filter taps that a block computes
  int segments;         // parts that a row of y is cut into
  int columns;          // columns of y in a segment, rounded up to whole fragments
  int steps_of_column;  // steps from the first row of a segment to its last
  int rows;             // rows of y in one step
  int ring_rows, ring_columns;

  deep_form(const direct_convolution& of, int tap_rows_)
      : images(static_cast<int>(of.x.n)),
        height(static_cast<int>(of.x.h)),
        width(static_cast<int>(of.x.w)),
        channels(static_cast<int>(of.x.c)),
        result_height(static_cast<int>(of.y.h)),
        result_width(static_cast<int>(of.y.w)),
        result_channels(static_cast<int>(of.y.c)),
        taps_h(static_cast<int>(of.w.h)),
        taps_w(static_cast<int>(of.w.w)),
        pad_h(of.attributes.pad_h),
        pad_w(of.attributes.pad_w),
        tap_rows(tap_rows_),
        segments(static_cast<int>(divide_up(result_width, max_columns))),
        columns(static_cast<int>(divide_up(divide_up(result_width, segments), depth)) * depth),
        steps_of_column(static_cast<int>(divide_up(result_height, std::max(1, step_pixels / columns)))),
        rows(static_cast<int>(divide_up(result_height, steps_of_column))),
        ring_rows(2 * (tap_rows - 1 + rows)),
        ring_columns(columns + taps_w - 1) {}

  __host__ __device__ int ring_pixels() const { return ring_rows * ring_columns; }
  __host__ __device__ int gradient_pixels() const { return rows * columns; }
  int shared_bytes() const { return (ring_pixels() + 2 * gradient_pixels()) * pixel_words * 4; }
  __host__ __device__ std::int64_t steps() const { return std::int64_t{images} * segments * steps_of_column; }
  __host__ __device__ int tap_groups() const { return taps_h / tap_rows; }
  __host__ __device__ int groups_of_inputs() const { return (channels + group - 1) / group; }
  int tiles() const { return result_channels / group * groups_of_inputs() * tap_groups(); }
};

// A block computes this many rows of taps at once. Registers limit them.
int tap_rows_of(const direct_convolution& of) {
  return of.w.h == 3 && of.w.w == 3 ? 3 : 1;
}

struct deep_step {
  int image, first_column, first_row;  // place of the first result
};

__device__ deep_step step_at(const deep_form& f, std::int64_t index) {
  const auto column = index / f.steps_of_column;
  return {static_cast<int>(column / f.segments), static_cast<int>(column % f.segments) * f.columns,
          static_cast<int>(index % f.steps_of_column) * f.rows};
}
__device__ int rows_of(const deep_form& f, const deep_step& at) {
  return min(f.rows, f.result_height - at.first_row);
}
__device__ deep_step step_after(const deep_form& f, deep_step at) {
  at.first_row += f.rows;
  if (at.first_row < f.result_height) return at;
  at.first_row = 0;
  at.first_column += f.columns;
  if (at.first_column < f.result_width) return at;
  return {at.image + 1, 0, 0};
}

__device__ int wrap_row(int row, int rows) {
  return row >= rows ? row - rows : row;
}

// Copies 64 channels of pixels from rows of an image. 16 threads copy a pixel, and 16 pixels are copied at
// once.
class pixel_rows {
 public:
  // `image` points to the first channel to copy, from which `present` channels are left. Outside of the image
  // and beyond these channels it reads nothing and writes zeros.
  __device__ pixel_rows(const float* image, int height, int width, int channels, int row, int column,
                        int present)
      : from_(image + (std::int64_t{row} * width + column + lane()) * channels + vector() * vector_words),
        row_step_(width * channels),
        pass_(pass_pixels * channels),
        height_(vector() * vector_words < present ? height : 0),
        width_(width),
        row_(row),
        column_(column + lane()) {}

  // Copies one row of `count` pixels to shared memory, then moves on to the next row.
  __device__ void copy_row(std::uint32_t to, int count) {
    const bool inside = row_ >= 0 && row_ < height_;
    const float* from = from_;
    to += static_cast<std::uint32_t>((lane() * pixel_words + vector() * vector_words) * 4);
#pragma unroll
    for (int first = 0; first < max_columns + 8; first += pass_pixels) {
      const bool valid = inside && static_cast<unsigned>(column_ + first) < static_cast<unsigned>(width_);
      if (first + lane() < count) copy_async<4>(to + first * pixel_words * 4, from, valid);
      from += pass_;
    }
    from_ += row_step_;
    ++row_;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) / vectors; }
  __device__ static int vector() { return static_cast<int>(threadIdx.x) % vectors; }
  const float* from_;
  int row_step_, pass_, height_, width_, row_, column_;
};

class step_loader {
 public:
  __device__ step_loader(const deep_form& f, const float* x, const float* dy, int first_c, int first_k,
                         int tap_row, float* shared)
      : f_(f),
        x_(x + first_c),
        dy_(dy + first_k),
        inputs_left_(f.channels - first_c),
        tap_row_(tap_row),
        shared_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  // Loads the rows of x that the step's first results need, from filter tap `first` on, into the ring from
  // `slot` on. Loads the gradients into one of their two buffers.
  __device__ void load(const deep_step& at, int first, int slot, int buffer) const {
    pixel_rows inputs(x_ + std::int64_t{at.image} * f_.height * f_.width * f_.channels, f_.height, f_.width,
                      f_.channels, at.first_row + first - f_.pad_h + tap_row_, at.first_column - f_.pad_w,
                      inputs_left_);
    for (int left = f_.tap_rows - 1 + rows_of(f_, at) - first; left > 0; --left) {
      inputs.copy_row(shared_address(slot * f_.ring_columns), f_.ring_columns);
      slot = wrap_row(slot + 1, f_.ring_rows);
    }
    pixel_rows gradients(
        dy_ + std::int64_t{at.image} * f_.result_height * f_.result_width * f_.result_channels,
        f_.result_height, f_.result_width, f_.result_channels, at.first_row, at.first_column, group);
    const int pixel = f_.ring_pixels() + buffer * f_.gradient_pixels();
    for (int r = 0; r < rows_of(f_, at); ++r)
      gradients.copy_row(shared_address(pixel + r * f_.columns), f_.columns);
  }

 private:
  __device__ std::uint32_t shared_address(int pixel) const {
    return shared_ + static_cast<std::uint32_t>(pixel * pixel_words * 4);
  }
  const deep_form& f_;
  const float *x_, *dy_;
  int inputs_left_, tap_row_;
  std::uint32_t shared_;
};

// A warp's fragments for 8 pixels. Lane 4 g + t has pixels 2 t and 2 t + 1: of dy channels 16 i + 2 g and the
// next, of x channel g for every tap.
template <int TapRows, int TapColumns>
class deep_fragments {
 public:
  static constexpr int taps = TapRows * TapColumns;

  // `dy` and `x` point to the lane's first pixel and channel; `x` has the rows that the rows of taps need.
  __device__ void start(const float* dy, const float* const (&x)[TapRows]) {
    dy_ = dy;
#pragma unroll
    for (int r = 0; r < TapRows; ++r) x_[r] = x[r];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_gradients(i);
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) load_inputs(tap);
  }
  // Adds the products of these 8 pixels, and loads the next fragments, if any, into free registers.
  __device__ void multiply(float (&sums)[4][taps][4], bool more) {
    dy_ += depth * pixel_words;
#pragma unroll
    for (int r = 0; r < TapRows; ++r) x_[r] += depth * pixel_words;
    std::uint32_t b[taps][2];
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
      b[tap][0] = rounded(inputs_[tap][0]);
      b[tap][1] = rounded(inputs_[tap][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t a[4]{rounded(gradients_[i][0].x), rounded(gradients_[i][0].y),
                               rounded(gradients_[i][1].x), rounded(gradients_[i][1].y)};
#pragma unroll
      for (int tap = 0; tap < taps; ++tap) {
        multiply_add<float>(sums[i][tap], a, b[tap]);
        if (i == 3 && more) load_inputs(tap);
      }
      if (more) load_gradients(i);
    }
  }

 private:
  // Tensor cores truncate f32 to tf32, so values are rounded before, half away from zero.
  __device__ static std::uint32_t rounded(float value) { return __float_as_uint(value) + 0x1000; }
  __device__ void load_gradients(int i) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
      gradients_[i][p] = *reinterpret_cast<const float2*>(dy_ + p * pixel_words + 16 * i);
  }
  __device__ void load_inputs(int tap) {
#pragma unroll
    for (int p = 0; p < 2; ++p) inputs_[tap][p] = x_[tap / TapColumns][(tap % TapColumns + p) * pixel_words];
  }
  const float* dy_ = nullptr;
  const float* x_[TapRows];
  float2 gradients_[4][2];
  float inputs_[taps][2];
};

template <int TapRows, int TapColumns>
__global__ void __launch_bounds__(threads, 1)
    deep_gradient(const __grid_constant__ deep_form f, const float* x, const float* dy, float* partials) {
  extern __shared__ float4 shared_vectors[];
  float* const shared = reinterpret_cast<float*>(shared_vectors);
  const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const int c_groups = f.groups_of_inputs(), tap_groups = f.tap_groups();
  auto tile = static_cast<int>(blockIdx.y);
  const int tap_row = tile % tap_groups * TapRows;
  tile /= tap_groups;
  const int first_c = tile % c_groups * group, first_k = tile / c_groups * group;
  const step_loader loads(f, x, dy, first_c, first_k, tap_row, shared);
  const float* const lane_x = shared + 2 * t * pixel_words + 8 * warp + g;
  const float* const lane_dy = shared + (f.ring_pixels() + 2 * t) * pixel_words + 2 * g;

  float sums[4][TapRows * TapColumns][4]{};
  const std::int64_t steps = f.steps();
  const std::int64_t begin = steps * blockIdx.x / gridDim.x, end = steps * (blockIdx.x + 1) / gridDim.x;
  deep_step next = step_at(f, begin);
  int next_slot = 0;
  loads.load(next, 0, next_slot, 0);
  for (std::int64_t i = begin; i < end; ++i) {
    const int slot = next_slot, buffer = static_cast<int>(i - begin) % 2;
    const int rows = rows_of(f, next);
    wait_for_copies();
    __syncthreads();  // the step is loaded, and all threads are done with the one before
    if (i + 1 < end) {
      next = step_after(f, next);
      const int kept = next.first_row > 0 ? TapRows - 1 : 0;  // rows of x that the ring still holds
      const int free = wrap_row(slot + TapRows - 1 + f.rows, f.ring_rows);
      next_slot = wrap_row(slot + TapRows - 1 + f.rows - kept, f.ring_rows);
      loads.load(next, kept, free, buffer ^ 1);
    }
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      const float* inputs[TapRows];
#pragma unroll
      for (int r = 0; r < TapRows; ++r)
        inputs[r] = lane_x + wrap_row(slot + row + r, f.ring_rows) * f.ring_columns * pixel_words;
      deep_fragments<TapRows, TapColumns> at_hand;
      at_hand.start(lane_dy + (buffer * f.gradient_pixels() + row * f.columns) * pixel_words, inputs);
#pragma unroll 2
      for (int left = f.columns - depth; left >= 0; left -= depth) at_hand.multiply(sums, left > 0);
    }
  }

  const int taps = f.taps_h * f.taps_w;
  float* const to = partials + std::int64_t{blockIdx.x} * f.result_channels * taps * f.channels;
  const int c = first_c + 8 * warp + 2 * t;
  if (c >= f.channels) return;
#pragma unroll
  for (int value = 0; value < 8; ++value) {
    const int k = first_k + value / 2 * 16 + 2 * g + value % 2;
#pragma unroll
    for (int tap = 0; tap < TapRows * TapColumns; ++tap) {
      const float (&sum)[4] = sums[value / 2][tap];
      const float2 pair{sum[value % 2 * 2], sum[value % 2 * 2 + 1]};
      const std::int64_t place = (std::int64_t{k} * taps + tap_row * f.taps_w + tap) * f.channels + c;
      *reinterpret_cast<float2*>(to + place) = pair;
    }
  }
}

// dw = [dw +] the sum of `count` partials, in a fixed order. A block takes 128 neighbours, and each of its
// warps a share of the partials.
constexpr int max_sum_warps = 8;
__global__ void __launch_bounds__(max_sum_warps* warp_threads)
    sum_splits(const float4* partials, int count, std::int64_t results, float4* dw, bool add) {
  __shared__ float4 of_warp[max_sum_warps][warp_threads];
  const auto warp = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const std::int64_t result = std::int64_t{blockIdx.x} * warp_threads + lane;
  const auto plus = [](float4 a, const float4& b) {
    return float4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  };
  float4 sum{};
  if (result < results) {
#pragma unroll 4
    for (int i = warp; i < count; i += static_cast<int>(blockDim.y))
      sum = plus(sum, partials[i * results + result]);
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || result >= results) return;
  float4 total = add ? dw[result] : float4{};
  for (int i = 0; i < static_cast<int>(blockDim.y); ++i) total = plus(total, of_warp[i][lane]);
  dw[result] = total;
}

// The pixels are cut into the fewest shares that keep the multiprocessors nearly as busy as any number does.
int splits_of(const deep_form& f, int multiprocessors) {
  const auto rounds_of = [&](int splits) {
    return static_cast<double>(divide_up(std::int64_t{f.tiles()} * splits, multiprocessors)) / splits;
  };
  const auto max_splits = static_cast<int>(std::min<std::int64_t>(multiprocessors, f.steps()));
  double best = rounds_of(1);
  for (int splits = 2; splits <= max_splits; ++splits) best = std::min(best, rounds_of(splits));
  constexpr double near = 1.1;
  int splits = 1;
  while (rounds_of(splits) > near * best) ++splits;
  return splits;
}

template <int TapRows, int TapColumns>
void launch(launch_site where, const direct_convolution& of, const float* x, const float* dy, float* dw,
            bool add, float* partials) {
  const deep_form f(of, TapRows);
  const int splits = splits_of(f, where.multiprocessors);
  const dim3 grid(static_cast<unsigned>(splits), static_cast<unsigned>(f.tiles()));
  launch_with(where, f.shared_bytes(), deep_gradient<TapRows, TapColumns>, grid, dim3(threads), f, x, dy,
              partials);
  const auto results = static_cast<std::int64_t>(element_count(of.w)) / vector_words;
  const dim3 block(warp_threads, static_cast<unsigned>(std::min(splits, max_sum_warps)));
  kernels::launch(where, &sum_splits, static_cast<unsigned>(divide_up(results, warp_threads)), block,
                  reinterpret_cast<const float4*>(partials), splits, results, reinterpret_cast<float4*>(dw),
                  add);
}

}  // namespace

int deep_filter_gradient_shared_bytes(const direct_convolution& of) {
  return deep_form(of, tap_rows_of(of)).shared_bytes();
}

bool deep_filter_gradient_fits(const direct_convolution& of) {
  const bool known_taps = (of.w.h == 3 && of.w.w == 3) || (of.w.h == 5 && of.w.w == 5);
  constexpr std::int64_t index_limit = std::int64_t{1} << 31;
  return known_taps && of.type == dtype::f32 && of.attributes.stride_h == 1 && of.attributes.stride_w == 1 &&
         of.x.c % vector_words == 0 && of.y.c % group == 0 && of.x.c * of.x.h * of.x.w < index_limit &&
         of.y.c * of.y.h * of.y.w < index_limit &&
         deep_filter_gradient_shared_bytes(of) <= direct_shared_bytes;
}

std::size_t deep_filter_gradient_workspace(int multiprocessors, const direct_convolution& of) {
  return static_cast<std::size_t>(splits_of(deep_form(of, tap_rows_of(of)), multiprocessors)) *
         static_cast<std::size_t>(element_count(of.w)) * sizeof(float);
}

void deep_filter_gradient(launch_site where, const direct_convolution& of, const float* x, const float* dy,
                          float* dw, bool add, float* workspace) {
  if (of.w.h == 3) {
    launch<3, 3>(where, of, x, dy, dw, add, workspace);
  } else {
    launch<1, 5>(where, of, x, dy, dw, add, workspace);
  }
}

}  // namespace um::kernels
