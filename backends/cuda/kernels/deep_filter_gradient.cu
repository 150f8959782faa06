#include "backends/cuda/kernels/direct_convolution.cuh"

namespace um::kernels {
namespace {

// dw[k][tap][c] = sum over pixels of dy[pixel][k] * x[pixel + tap][c]. A block makes `group` channels k by
// `group` channels c for a run of taps, over a share of the pixels; warp w has all of the k and 8 of the c.
// What it needs of x and dy comes into shared memory in steps of some rows of a segment of an image; rows
// of x stay in a ring for the taps of the rows that follow.
constexpr int group = 64;
constexpr int warps = group / 8, threads = warps * warp_threads;
constexpr int pixel_words = group + 4;  // lanes of a fragment then read from 32 different banks
constexpr int vector_words = 4, vectors = group / vector_words;
constexpr int step_pixels = 112;  // about as many, so that a step hides what the next one loads
constexpr int most_columns = 56;  // of a segment

struct deep_form {
  int images, height, width, channels;  // of x
  int result_height, result_width, result_channels;
  int taps_h, taps_w, pad_h, pad_w;
  int tap_rows;           // of a block
  int segments, columns;  // of a row of results; an even number of columns
  int rows;               // of results in a step
  int ring_rows, ring_columns;
  int steps_of_column;  // a segment from the first row to the last

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
        pad_h(of.how.pad_h),
        pad_w(of.how.pad_w),
        tap_rows(tap_rows_),
        segments(static_cast<int>(divide_up(result_width, most_columns))),
        columns(static_cast<int>(divide_up(divide_up(result_width, segments), 2)) * 2),
        rows(std::clamp(step_pixels / columns, 1, result_height)),
        ring_rows(2 * (tap_rows - 1 + rows)),
        ring_columns(columns + 8),  // not to change the bank where a fragment goes on in the next row
        steps_of_column(static_cast<int>(divide_up(result_height, rows))) {}

  // Zeros behind the last: fragments are read in pairs of 8 pixels, and one ahead.
  __host__ __device__ int gradient_pixels() const { return (rows * columns + 15) / 16 * 16 + 8; }
  __host__ __device__ int ring_words() const { return ring_rows * ring_columns * pixel_words; }
  int shared_bytes() const { return (ring_words() + 2 * gradient_pixels() * pixel_words) * 4; }
  __host__ __device__ std::int64_t steps() const { return std::int64_t{images} * segments * steps_of_column; }
  __host__ __device__ int tap_groups() const { return taps_h / tap_rows; }
  int tiles() const { return result_channels / group * (channels / group) * tap_groups(); }
};

// Rows of taps that a block takes at once: what registers hold.
int tap_rows_of(const direct_convolution& of) {
  return of.w.h == 3 && of.w.w == 3 ? 3 : 1;
}

struct deep_step {
  int image, first_column, first_row;  // of results
};

__device__ deep_step step_at(const deep_form& f, std::int64_t index) {
  const auto column = index / f.steps_of_column;
  return {static_cast<int>(column / f.segments), static_cast<int>(column % f.segments) * f.columns,
          static_cast<int>(index % f.steps_of_column) * f.rows};
}

// Copies 16 bytes to shared memory without waiting, or zeros.
__device__ void copy_vector(std::uint32_t to, const float* from, bool valid) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
#else
  __trap();
#endif
}
__device__ void wait_for_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  __trap();
#endif
}

__device__ int wrapped(int row, int rows) {
  return row >= rows ? row - rows : row;
}

// The operands of a block in shared memory, and what fills it.
class deep_tile {
 public:
  __device__ deep_tile(const deep_form& f, const float* x, const float* dy, int tap_row, float* shared)
      : f_(f),
        x_(x),
        dy_(dy),
        tap_row_(tap_row),
        pixel_(static_cast<int>(threadIdx.x) / vectors),
        vector_(static_cast<int>(threadIdx.x) % vectors),
        shared_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  // Rows of the ring from `slot` on: those that the step's first result needs and `count` in all.
  __device__ void load_rows(const deep_step& at, int first, int count, int slot) const {
    const int left = at.first_column - f_.pad_w, columns = f_.columns + f_.taps_w - 1;
    const float* const image = x_ + std::int64_t{at.image} * f_.height * f_.width * f_.channels;
    for (int r = 0; r < count; ++r) {
      const int row = at.first_row + first + r - f_.pad_h + tap_row_;
      const bool inside = row >= 0 && row < f_.height;
      const std::uint32_t to = shared_ + static_cast<std::uint32_t>(wrapped(slot + r, f_.ring_rows) *
                                                                    f_.ring_columns * pixel_words * 4);
      const float* const from = image + (row * f_.width + left) * f_.channels + vector_ * vector_words;
      for (int c = pixel_; c < columns; c += threads / vectors) {
        const bool valid = inside && left + c >= 0 && left + c < f_.width;
        copy_vector(to + static_cast<std::uint32_t>((c * pixel_words + vector_ * vector_words) * 4),
                    valid ? from + c * f_.channels : x_, valid);
      }
    }
  }
  __device__ void load_gradients(const deep_step& at, int buffer) const {
    const std::uint32_t to =
        shared_ +
        static_cast<std::uint32_t>((f_.ring_words() + buffer * f_.gradient_pixels() * pixel_words) * 4);
    const float* const from =
        dy_ +
        ((std::int64_t{at.image} * f_.result_height + at.first_row) * f_.result_width + at.first_column) *
            f_.result_channels +
        vector_ * vector_words;
    const int pixels = f_.gradient_pixels();
    int row = 0, column = pixel_;
    for (int p = pixel_; p < pixels; p += threads / vectors, column += threads / vectors) {
      while (column >= f_.columns) {
        column -= f_.columns;
        ++row;
      }
      const bool valid = row < f_.rows && at.first_row + row < f_.result_height &&
                         at.first_column + column < f_.result_width;
      copy_vector(to + static_cast<std::uint32_t>((p * pixel_words + vector_ * vector_words) * 4),
                  valid ? from + (row * f_.result_width + column) * f_.result_channels : dy_, valid);
    }
  }

 private:
  const deep_form& f_;
  const float *x_, *dy_;
  int tap_row_, pixel_, vector_;
  std::uint32_t shared_;
};

// An f32 in a register of a fragment, which the tensor cores cut off to tf32: rounded half away.
__device__ std::uint32_t rounded(float value) {
  return __float_as_uint(value) + 0x1000;
}

// Of 8 pixels, of which lane 4 g + t has 2 t and 2 t + 1: of dy channels 16 i + 2 g and the next, of x
// channel g of each row of taps from pixel 2 t to the last tap of 2 t + 1.
template <int TapRows, int TapColumns>
struct deep_operands {
  float2 dy[4][2];
  float x[TapRows][TapColumns + 1];

  __device__ void load_from(const float* gradients, const float* const (&inputs)[TapRows]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int p = 0; p < 2; ++p)
        dy[i][p] = *reinterpret_cast<const float2*>(gradients + p * pixel_words + 16 * i);
    }
#pragma unroll
    for (int r = 0; r < TapRows; ++r) {
#pragma unroll
      for (int s = 0; s <= TapColumns; ++s) x[r][s] = inputs[r][s * pixel_words];
    }
  }
  __device__ void multiply(float (&sums)[4][TapRows * TapColumns][4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t a[4]{rounded(dy[i][0].x), rounded(dy[i][0].y), rounded(dy[i][1].x),
                               rounded(dy[i][1].y)};
#pragma unroll
      for (int tap = 0; tap < TapRows * TapColumns; ++tap) {
        const float* const from = x[tap / TapColumns] + tap % TapColumns;
        const std::uint32_t b[2]{rounded(from[0]), rounded(from[1])};
        multiply_add<float>(sums[i][tap], a, b);
      }
    }
  }
};

// Where a lane reads: its first pixel goes forward by 8, over the end of rows. Behind the last row
// gradients are zeros, whatever is read of x.
template <int TapRows>
class deep_reader {
 public:
  __device__ deep_reader(const deep_form& f, const float* ring, const float* gradients, int slot, int warp,
                         int g, int t)
      : f_(f),
        ring_(ring + 8 * warp + g),
        gradients_(gradients + 2 * t * pixel_words + 2 * g),
        column_(2 * t),
        slot_(slot),
        rows_left_(f.rows) {
    find_inputs();
  }
  template <int TapColumns>
  __device__ void read(deep_operands<TapRows, TapColumns>& to) {
    to.load_from(gradients_, inputs_);
    gradients_ += 8 * pixel_words;
    column_ += 8;
#pragma unroll
    for (int r = 0; r < TapRows; ++r) inputs_[r] += 8 * pixel_words;
    if (column_ >= f_.columns) {
      column_ -= f_.columns;
      if (--rows_left_ > 0) slot_ = wrapped(slot_ + 1, f_.ring_rows);
      find_inputs();
    }
  }

 private:
  __device__ void find_inputs() {
#pragma unroll
    for (int r = 0; r < TapRows; ++r)
      inputs_[r] = ring_ + (wrapped(slot_ + r, f_.ring_rows) * f_.ring_columns + column_) * pixel_words;
  }
  const deep_form& f_;
  const float *ring_, *gradients_;
  const float* inputs_[TapRows];
  int column_, slot_, rows_left_;
};

template <int TapRows, int TapColumns>
__global__ void __launch_bounds__(threads, 1)
    deep_gradient(const __grid_constant__ deep_form f, const float* x, const float* dy, float* partials) {
  extern __shared__ float4 shared_vectors[];
  float* const shared = reinterpret_cast<float*>(shared_vectors);
  const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const int c_groups = f.channels / group, tap_groups = f.tap_groups();
  auto tile = static_cast<int>(blockIdx.y);
  const int tap_row = tile % tap_groups * TapRows;
  tile /= tap_groups;
  const int first_c = tile % c_groups * group, first_k = tile / c_groups * group;
  const deep_tile loads(f, x + first_c, dy + first_k, tap_row, shared);

  float sums[4][TapRows * TapColumns][4]{};
  const std::int64_t steps = f.steps();
  const std::int64_t begin = steps * blockIdx.x / gridDim.x, end = steps * (blockIdx.x + 1) / gridDim.x;
  int slot = 0, buffer = 0;
  if (begin < end) {
    const deep_step first = step_at(f, begin);
    loads.load_rows(first, 0, TapRows - 1 + f.rows, slot);
    loads.load_gradients(first, buffer);
  }
  for (std::int64_t i = begin; i < end; ++i) {
    wait_for_copies();
    __syncthreads();  // the step is there, and all have done with the one before
    int next_slot = slot;
    if (i + 1 < end) {
      const deep_step next = step_at(f, i + 1);
      const bool goes_on = next.first_row > 0;
      const int free = wrapped(slot + TapRows - 1 + f.rows, f.ring_rows);
      next_slot = wrapped(slot + f.rows + (goes_on ? 0 : TapRows - 1), f.ring_rows);
      loads.load_rows(next, goes_on ? TapRows - 1 : 0, f.rows + (goes_on ? 0 : TapRows - 1), free);
      loads.load_gradients(next, buffer ^ 1);
    }
    const int rows = min(f.rows, f.result_height - step_at(f, i).first_row);
    const int pairs = (rows * f.columns + 15) / 16;
    deep_reader<TapRows> reader(
        f, shared, shared + f.ring_words() + buffer * f.gradient_pixels() * pixel_words, slot, warp, g, t);
    deep_operands<TapRows, TapColumns> even, odd;
    reader.read(even);
#pragma unroll 1
    for (int pair = 0; pair < pairs; ++pair) {
      reader.read(odd);
      even.multiply(sums);
      reader.read(even);
      odd.multiply(sums);
    }
    slot = next_slot;
    buffer ^= 1;
  }

  const int taps = f.taps_h * f.taps_w;
  float* const to = partials + std::int64_t{blockIdx.x} * f.result_channels * taps * f.channels;
#pragma unroll
  for (int value = 0; value < 8; ++value) {
    const int k = first_k + value / 2 * 16 + 2 * g + value % 2;
#pragma unroll
    for (int tap = 0; tap < TapRows * TapColumns; ++tap) {
      const float(&sum)[4] = sums[value / 2][tap];
      const float2 pair{sum[value % 2 * 2], sum[value % 2 * 2 + 1]};
      const std::int64_t place =
          (std::int64_t{k} * taps + tap_row * f.taps_w + tap) * f.channels + first_c + 8 * warp + 2 * t;
      *reinterpret_cast<float2*>(to + place) = pair;
    }
  }
}

// dw = [dw +] the sum of `count` partials, in a fixed order: 128 neighbours a block, each of its warps a
// share of the partials.
constexpr int most_sum_warps = 8;
__global__ void __launch_bounds__(most_sum_warps* warp_threads)
    sum_splits(const float4* partials, int count, std::int64_t results, float4* dw, bool add) {
  __shared__ float4 of_warp[most_sum_warps][warp_threads];
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

// The fewest shares of the pixels that keep the multiprocessors nearly as busy as any number does.
int splits_of(const deep_form& f, int multiprocessors) {
  const auto rounds_of = [&](int splits) {
    return static_cast<double>(divide_up(std::int64_t{f.tiles()} * splits, multiprocessors)) / splits;
  };
  const auto most = static_cast<int>(std::min<std::int64_t>(multiprocessors, f.steps()));
  double best = rounds_of(1);
  for (int splits = 2; splits <= most; ++splits) best = std::min(best, rounds_of(splits));
  constexpr double near = 1.1;
  int splits = 1;
  while (rounds_of(splits) > near * best) ++splits;
  return splits;
}

template <int TapRows, int TapColumns>
void launch(launch_site where, const direct_convolution& of, const float* x, const float* dy, float* dw,
            bool add, float* partials) {
  const deep_form f(of, TapRows);
  const int splits = splits_of(f, where.multiprocessors), bytes = f.shared_bytes();
  const auto kernel = deep_gradient<TapRows, TapColumns>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const dim3 grid(static_cast<unsigned>(splits), static_cast<unsigned>(f.tiles()));
  kernel<<<grid, threads, static_cast<std::size_t>(bytes), where.stream>>>(f, x, dy, partials);
  check(cudaGetLastError());
  const auto results = static_cast<std::int64_t>(elements(of.w)) / vector_words;
  const dim3 block(warp_threads, static_cast<unsigned>(std::min(splits, most_sum_warps)));
  sum_splits<<<static_cast<unsigned>(divide_up(results, warp_threads)), block, 0, where.stream>>>(
      reinterpret_cast<const float4*>(partials), splits, results, reinterpret_cast<float4*>(dw), add);
  check(cudaGetLastError());
}

}  // namespace

int deep_filter_gradient_shared_bytes(const direct_convolution& of) {
  return deep_form(of, tap_rows_of(of)).shared_bytes();
}

bool deep_filter_gradient_fits(const direct_convolution& of) {
  const bool known_taps = (of.w.h == 3 && of.w.w == 3) || (of.w.h == 5 && of.w.w == 5);
  constexpr std::int64_t index_limit = std::int64_t{1} << 31;
  return known_taps && of.y.w >= 8 && of.type == dtype::f32 && of.how.stride_h == 1 && of.how.stride_w == 1 &&
         of.x.c % group == 0 && of.y.c % group == 0 && of.x.c * of.x.h * of.x.w < index_limit &&
         of.y.c * of.y.h * of.y.w < index_limit &&
         deep_filter_gradient_shared_bytes(of) <= direct_shared_bytes;
}

std::size_t deep_filter_gradient_workspace(int multiprocessors, const direct_convolution& of) {
  return static_cast<std::size_t>(splits_of(deep_form(of, tap_rows_of(of)), multiprocessors)) *
         static_cast<std::size_t>(elements(of.w)) * sizeof(float);
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
