// Shapes and positions of threads, for pooling and its gradient.
#pragma once

#include "backends/cuda/kernels/channels.cuh"

namespace um::kernels {

struct pool_extents {
  std::int64_t channels;
  int x_h, x_w, y_h, y_w, window, stride, pad_above, pad_left;
};

inline pool_extents pool_extents_of(const max_pool_problem& p) {
  return {p.x.c,
          static_cast<int>(p.x.h),
          static_cast<int>(p.x.w),
          static_cast<int>(p.y.h),
          static_cast<int>(p.y.w),
          p.attributes.window,
          p.attributes.stride,
          p.pad_above,
          p.attributes.pad};
}

// Planes are cut into strips of rows. One thread a column walks down each strip. Columns are neighbours, then
// come strips, then samples.
struct strips {
  std::int64_t samples;
  int rows, columns, height, parts;
  divisor by_column, by_part;

  // A strip has `rows_each` rows, fewer at the end of a plane.
  strips(std::int64_t sample_count, std::int64_t row_count, std::int64_t column_count, int rows_each)
      : samples(sample_count),
        rows(static_cast<int>(row_count)),
        columns(static_cast<int>(column_count)),
        height(rows_each),
        parts(static_cast<int>(divide_up(row_count, rows_each))),
        by_column(columns),
        by_part(parts) {}
  std::int64_t positions() const { return samples * parts * columns; }
};

struct strip {
  std::int64_t sample;
  int column, begin, end;  // rows [begin, end)
};

// Finds the strip at position begin + local of a block.
class strip_finder {
 public:
  __device__ strip_finder(const strips& of, std::int64_t begin) : of_(of) {
    const std::int64_t in_sample = std::int64_t{of.columns} * of.parts;
    sample_ = begin / in_sample;
    skipped_positions_ = static_cast<std::uint32_t>(begin - sample_ * in_sample);
  }
  __device__ strip operator()(std::uint32_t local) const {
    std::uint32_t rest = skipped_positions_ + local;
    const auto column = static_cast<int>(of_.by_column.take_remainder(rest));
    const int begin = static_cast<int>(of_.by_part.take_remainder(rest)) * of_.height;
    return {sample_ + rest, column, begin, min(begin + of_.height, of_.rows)};
  }

 private:
  const strips& of_;
  std::int64_t sample_;
  std::uint32_t skipped_positions_;
};

// The first element of `channel` of `sample`, and the distances in elements between neighbours.
template <class Layout>
struct plane_view {
  std::int64_t base, row;
  std::int64_t column;

  __device__ plane_view(std::int64_t channels, int h, int w, std::int64_t sample, std::int64_t channel) {
    const std::int64_t plane = std::int64_t{h} * w;
    base = Layout::is_planar ? (sample * channels + channel) * plane : sample * plane * channels + channel;
    column = Layout::is_planar ? 1 : channels;
    row = w * column;
  }
  __device__ std::int64_t operator()(int h, int w) const { return base + h * row + w * column; }
};

// As with_layout(), but with vectors along channels only: in planes, neighbouring threads take neighbouring
// columns.
template <class Launch>
void with_column_layout(const max_pool_problem& p, bool aligned, Launch launch) {
  const bool channels_last = p.order == memory_order::nhwc || p.x.h * p.x.w == 1;
  with_type(p.type, [&](auto zero) {
    using T = decltype(zero);
    if (!channels_last) return launch(layout<T, 1, memory_order::nchw>{});
    if (aligned && p.x.c % vector_of<T> == 0) return launch(layout<T, vector_of<T>, memory_order::nhwc>{});
    launch(layout<T, 1, memory_order::nhwc>{});
  });
}

// Whether windows of 2x2 lie side by side and cover planes whose rows are whole vectors.
inline bool tiles_by_two(const max_pool_problem& p) {
  const std::int64_t vector = p.type == dtype::bf16 ? vector_of<bf16> : vector_of<float>;
  return p.order == memory_order::nchw && p.attributes.window == 2 && p.attributes.stride == 2 &&
         p.attributes.pad == 0 && p.pad_above == 0 && p.x.w % vector == 0 && p.x.w == 2 * p.y.w &&
         p.x.h == 2 * p.y.h;
}

// Calls launch(Index{}) with the type of the window positions.
template <class Launch>
void with_index(int index_bytes, Launch launch) {
  if (index_bytes == 1) return launch(std::uint8_t{});
  launch(std::uint16_t{});
}

// Whether the pool has a kernel of its own: windows of 2 or 3 with stride 2.
inline bool has_own_kernel(const max_pool& attributes) {
  return attributes.stride == 2 && (attributes.window == 2 || attributes.window == 3);
}

}  // namespace um::kernels
