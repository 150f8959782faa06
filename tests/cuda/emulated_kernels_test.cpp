// Kernels on the CPU: no GPU is needed for their arithmetic of indices.
#include "tests/cuda/emulated.hpp"
// The sources themselves.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <vector>

#include "backends/cuda/kernels/average_pool.cu"
#include "backends/cuda/kernels/grouped_convolution.cu"
#include "backends/cuda/kernels/optimizer_step.cu"
#include "backends/cuda/kernels/pitched_copy.cu"
#include "backends/cuda/kernels/planar_filter_gradient.cu"
#include "backends/cuda/kernels/pool.cuh"

namespace um::kernels {
namespace {

TEST(Emulated, PositionsAreTheSameByEitherIndex) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const dims shape{3, 8, 5, 7};
    const tensor_strides where(shape, order);
    for (const int vector : {1, 4}) {
      if (order == memory_order::nchw && vector > 1) continue;
      const position_finder<std::uint32_t> narrow(shape, order, vector);
      const position_finder<std::uint64_t> wide(shape, order, vector);
      for (std::uint32_t i = 0; i < element_count(shape) / vector; ++i) {
        const dims at = narrow(i);
        ASSERT_EQ(where.at(at.n, at.c, at.h, at.w), std::int64_t{i} * vector);
        ASSERT_EQ(at, wide(i));
      }
    }
  }
}

TEST(Emulated, PositionsFarOut) {
  const dims shape{1 << 20, 64, 56, 56};  // 2^31 elements are not 2^20 samples
  const position_finder<std::uint64_t> wide(shape, memory_order::nchw);
  EXPECT_EQ(wide(static_cast<std::uint64_t>(element_count(shape)) - 1), (dims{(1 << 20) - 1, 63, 55, 55}));
}

// --- more than 2^31 elements ---

// Where every block begins and ends among all positions of a channel, and what lies there.
template <class Layout>
void check_ends(const dims& shape) {
  const bool planes = Layout::planes;
  const tensor_strides where(shape, planes ? memory_order::nchw : memory_order::nhwc);
  const std::int64_t positions = positions_of<Layout>(shape), channel = shape.c - Layout::channels;
  const grid_cover c = grid_cover_of<Layout>(shape.c, positions, 2112, 4);
  gridDim = c.grid;
  std::int64_t next = 0;
  for (blockIdx = {}; blockIdx.y < gridDim.y; ++blockIdx.y) {
    const share_of_block share(positions);
    ASSERT_EQ(share.begin, next);
    next += share.count;
    const element_finder<Layout> find(channel_geometry::of_shape<Layout>(shape), channel, share.begin);
    for (const std::uint32_t local : {0U, share.count - 1}) {
      const std::int64_t pixel = (share.begin + local) * (planes ? Layout::vector : 1);
      const std::int64_t w = pixel % shape.w, h = pixel / shape.w % shape.h, n = pixel / (shape.w * shape.h);
      ASSERT_EQ(find(local), where.at(n, channel, h, w));
    }
  }
  EXPECT_EQ(next, positions);
}

TEST(Emulated, ChannelsOfLargeTensors) {
  for (const dims& shape : {dims{1024, 64, 224, 224}, dims{1, 4096, 1024, 1024}, dims{1 << 20, 4096, 1, 1}}) {
    ASSERT_GT(element_count(shape), std::int64_t{1} << 31);
    if (shape.w > 1) check_ends<layout<float, 4, memory_order::nchw>>(shape);
    check_ends<layout<float, 1, memory_order::nchw>>(shape);
    check_ends<layout<float, 4, memory_order::nhwc>>(shape);
    check_ends<layout<bf16, 8, memory_order::nhwc>>(shape);
    check_ends<layout<float, 1, memory_order::nhwc>>(shape);
  }
}

template <class Layout>
void check_strips(const dims& shape, int height) {
  const memory_order order = Layout::planes ? memory_order::nchw : memory_order::nhwc;
  const tensor_strides where(shape, order);
  const strips along(shape.n, shape.h, shape.w, height);
  const grid_cover c =
      grid_cover_of<Layout>(shape.c, along.positions(), std::numeric_limits<std::int32_t>::max(), 1);
  gridDim = c.grid;
  std::int64_t next = 0;
  for (blockIdx = {}; blockIdx.y < gridDim.y; ++blockIdx.y) {
    const share_of_block share(along.positions());
    const strip_finder find(along, share.begin);
    for (const std::uint32_t local : {0U, share.count - 1}) {
      const strip at = find(local);
      const std::int64_t position = share.begin + local;
      ASSERT_EQ(at.column, position % shape.w);
      ASSERT_EQ(at.begin, position / shape.w % along.parts * height);
      ASSERT_EQ(at.sample, position / shape.w / along.parts);
      const plane_view<Layout> view(shape.c, static_cast<int>(shape.h), static_cast<int>(shape.w), at.sample,
                                    3);
      ASSERT_EQ(view(at.begin, at.column), where.at(at.sample, 3, at.begin, at.column));
    }
    next += share.count;
  }
  EXPECT_EQ(next, along.positions());
}

TEST(Emulated, StripsOfLargeTensors) {
  for (const dims& shape : {dims{1024, 64, 224, 224}, dims{2, 2048, 1024, 1024}}) {
    check_strips<layout<float, 1, memory_order::nchw>>(shape, 4);
    check_strips<layout<float, 4, memory_order::nhwc>>(shape, 1);
  }
}

// --- average pools ---

// Values of a tensor in memory, behind `offset` elements, which decide how they are aligned.
template <class T>
class values {
 public:
  values(const dims& shape, memory_order order, std::size_t offset)
      : laid_(shape, order),
        offset_(offset),
        data_(offset + static_cast<std::size_t>(element_count(shape)) + 16) {
    first_ =
        (16 - reinterpret_cast<std::uintptr_t>(data_.data()) % 16) / sizeof(T) % (16 / sizeof(T)) + offset_;
  }
  T* data() { return data_.data() + first_; }
  T& at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return data()[laid_.at(n, c, h, w)];
  }

 private:
  tensor_strides laid_;
  std::size_t offset_, first_ = 0;
  std::vector<T> data_;
};

struct pool_case {
  average_pool how;
  std::int64_t h = 0, w = 0, y_h = 0, y_w = 0;
};

// The number of elements that the mean of window `i` is of, along one axis.
std::int64_t counted(std::int64_t i, std::int64_t window, std::int64_t stride, std::int64_t pad,
                     std::int64_t extent, bool with_padding) {
  std::int64_t count = 0;
  for (std::int64_t at = i * stride - pad; at < i * stride - pad + window; ++at) {
    count += with_padding ? at < extent + pad : at >= 0 && at < extent;
  }
  return count;
}

// How much of element (h, w) is in the mean of window (i, j).
double weight(const pool_case& p, std::int64_t i, std::int64_t j, std::int64_t h, std::int64_t w) {
  const average_pool& a = p.how;
  const std::int64_t row = h - (i * a.stride_h - a.pad_h), column = w - (j * a.stride_w - a.pad_w);
  if (row < 0 || row >= a.window_h || column < 0 || column >= a.window_w) return 0;
  return 1.0 / static_cast<double>(counted(i, a.window_h, a.stride_h, a.pad_h, p.h, a.count_include_pad) *
                                   counted(j, a.window_w, a.stride_w, a.pad_w, p.w, a.count_include_pad));
}

struct rows {
  std::int64_t begin = 0, end = 0;
};

// Rows of x that rows of y take, or rows of y that rows of x are in.
rows taken_by(const pool_case& p, rows y) {
  const average_pool& a = p.how;
  return {std::max<std::int64_t>(y.begin * a.stride_h - a.pad_h, 0),
          std::min<std::int64_t>((y.end - 1) * a.stride_h - a.pad_h + a.window_h, p.h)};
}
rows that_take(const pool_case& p, rows x) {
  rows all{p.y_h, 0};
  for (std::int64_t i = 0; i < p.y_h; ++i) {
    const rows mine = taken_by(p, {i, i + 1});
    if (mine.begin >= x.end || mine.end <= x.begin) continue;
    all = {std::min(all.begin, i), i + 1};
  }
  return all;
}

template <class T>
void check_part(const pool_case& p, memory_order order, std::int64_t channels, std::size_t offset,
                rows written, bool forward) {
  constexpr std::int64_t samples = 2;
  const double tolerance = sizeof(T) == 2 ? 1.0 / 128 : 1e-6;
  const rows x = forward ? taken_by(p, written) : written, y = forward ? written : that_take(p, written);
  average_problem problem{{samples, channels, x.end - x.begin, p.w},
                          {samples, channels, y.end - y.begin, p.y_w},
                          p.how,
                          sizeof(T) == 2 ? dtype::bf16 : dtype::f32,
                          order,
                          x.begin,
                          y.begin,
                          p.h};
  values<T> of_x(problem.x, order, offset), of_y(problem.y, order, offset);
  std::mt19937 random(7);
  const auto fill = [&](values<T>& v, const dims& shape) {
    for (std::int64_t i = 0; i < element_count(shape); ++i)
      v.data()[i] = static_cast<float>(random() % 64) / 16.0F;
  };
  fill(forward ? of_x : of_y, forward ? problem.x : problem.y);
  if (forward) {
    average_pool_forward({}, of_x.data(), of_y.data(), problem);
  } else {
    average_pool_backward({}, of_y.data(), of_x.data(), problem);
  }
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = written.begin; i < written.end; ++i) {
        for (std::int64_t j = 0; j < (forward ? p.y_w : p.w); ++j) {
          const rows from = forward ? x : y;
          double sum = 0;
          for (std::int64_t h = from.begin; h < from.end; ++h) {
            for (std::int64_t w = 0; w < (forward ? p.w : p.y_w); ++w) {
              const double of = forward ? weight(p, i, j, h, w) : weight(p, h, w, i, j);
              if (of > 0) sum += of * static_cast<float>((forward ? of_x : of_y).at(n, c, h - from.begin, w));
            }
          }
          const float found = (forward ? of_y : of_x).at(n, c, i - written.begin, j);
          ASSERT_NEAR(found, sum, tolerance * (1 + sum)) << n << ' ' << c << ' ' << i << ' ' << j;
        }
      }
    }
  }
}

class AveragePools : public testing::TestWithParam<pool_case> {};

TEST_P(AveragePools, PartsOfRowsInAnyOrderTypeAndAlignment) {
  const pool_case p = GetParam();
  for (const bool forward : {true, false}) {
    const std::int64_t height = forward ? p.y_h : p.h;
    for (const rows written : {rows{0, height}, rows{0, height / 2}, rows{height / 2, height}}) {
      for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
        for (const std::int64_t channels : {1, 5, 8}) {
          for (const std::size_t offset : {0, 1}) {
            SCOPED_TRACE(testing::Message()
                         << (forward ? "forward " : "backward ") << written.begin << " to " << written.end
                         << ' ' << to_text(order) << ' ' << channels << " channels, offset " << offset);
            check_part<float>(p, order, channels, offset, written, forward);
            check_part<bf16>(p, order, channels, offset, written, forward);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AveragePools,
                         testing::Values(pool_case{{2, 2, 2, 2}, 8, 6, 4, 3},              // DenseNet's
                                         pool_case{{3, 3, 1, 1, 1, 1, true}, 5, 7, 5, 7},  // Inception's
                                         pool_case{{3, 3, 1, 1, 1, 1, false}, 5, 7, 5, 7},
                                         pool_case{{3, 3, 2, 2, 1, 1, false}, 13, 9, 7, 5},
                                         pool_case{{2, 2, 2, 2, 0, 0, true}, 10, 11, 5, 6},  // overhanging
                                         pool_case{{5, 5, 3, 3}, 17, 17, 5, 5},
                                         pool_case{{1, 1, 2, 2}, 7, 7, 4, 4},  // with gaps
                                         pool_case{{3, 2, 1, 2, 1, 0, true}, 6, 8, 6, 4},
                                         pool_case{{5, 5, 1, 1, 2, 2, false}, 9, 6, 9, 6}));

// --- convolutions in groups ---

struct grouped_case {
  dims x, w;
  convolution how;
  std::int64_t y_h = 0, y_w = 0;
};

// What tap (r, s) of filter k's result at (i, j) meets.
void for_each_product(const grouped_case& p, auto visit) {
  const std::int64_t filters = p.w.n / p.how.groups;
  for (std::int64_t n = 0; n < p.x.n; ++n) {
    for (std::int64_t k = 0; k < p.w.n; ++k) {
      for (std::int64_t at = 0; at < p.y_h * p.y_w * p.w.c * p.w.h * p.w.w; ++at) {
        const std::int64_t s = at % p.w.w, r = at / p.w.w % p.w.h, c = at / (p.w.w * p.w.h) % p.w.c;
        const std::int64_t j = at / (p.w.w * p.w.h * p.w.c) % p.y_w, i = at / (p.w.w * p.w.h * p.w.c) / p.y_w;
        const std::int64_t h = i * p.how.stride_h - p.how.pad_h + r, v = j * p.how.stride_w - p.how.pad_w + s;
        if (h < 0 || h >= p.x.h || v < 0 || v >= p.x.w) continue;
        visit(dims{n, k / filters * p.w.c + c, h, v}, dims{k, c, r, s}, dims{n, k, i, j});
      }
    }
  }
}

template <class T>
void check_grouped(const grouped_case& p, memory_order order, std::size_t offset) {
  const grouped_convolution of{
      p.x, p.w, {p.x.n, p.w.n, p.y_h, p.y_w}, p.how, sizeof(T) == 2 ? dtype::bf16 : dtype::f32, order};
  values<T> x(of.x, order, offset), w(of.w, order, 0), y(of.y, order, offset), dx(of.x, order, offset);
  values<float> b({1, of.w.n, 1, 1}, order, 0), dw(of.w, order, 0);
  std::mt19937 random(11);
  const auto fill = [&](auto& v, const dims& shape) {
    for (std::int64_t i = 0; i < element_count(shape); ++i)
      v.data()[i] = static_cast<float>(random() % 15) / 8.0F - 1;
  };
  fill(x, of.x), fill(w, of.w), fill(b, {1, of.w.n, 1, 1}), fill(dw, of.w);
  constexpr int multiprocessors = 2;
  std::vector<float> workspace(grouped_filter_workspace(multiprocessors, of) / sizeof(float), NAN);
  const auto at = [&](auto& v, const dims& d) -> auto& { return v.at(d.n, d.c, d.h, d.w); };

  grouped_forward({nullptr, multiprocessors}, of, x.data(), w.data(), b.data(), y.data());
  std::map<std::array<std::int64_t, 4>, double> sums;
  const auto key = [](const dims& d) { return std::array{d.n, d.c, d.h, d.w}; };
  for_each_product(p, [&](const dims& in, const dims& tap, const dims& out) {
    sums[key(out)] += static_cast<double>(static_cast<float>(at(x, in))) * static_cast<float>(at(w, tap));
  });
  const double tolerance = sizeof(T) == 2 ? 1.0 / 128 : 1e-5;
  for (const auto& [d, sum] : sums) {
    const double expected = std::max(sum + b.data()[d[1]], p.how.relu ? 0.0 : -1e9);
    const float found = y.at(d[0], d[1], d[2], d[3]);
    ASSERT_NEAR(found, expected, tolerance * (1 + std::abs(expected))) << "forward";
  }

  fill(y, of.y);
  const std::vector<float> before(dw.data(), dw.data() + element_count(of.w));
  grouped_backward_data({nullptr, multiprocessors}, of, w.data(), y.data(), dx.data());
  grouped_backward_filter({nullptr, multiprocessors}, of, x.data(), y.data(), dw.data(), true,
                          workspace.data());
  std::map<std::array<std::int64_t, 4>, double> of_x, of_w;
  for_each_product(p, [&](const dims& in, const dims& tap, const dims& out) {
    const double gradient = static_cast<float>(at(y, out));
    of_x[key(in)] += gradient * static_cast<float>(at(w, tap));
    of_w[key(tap)] += gradient * static_cast<float>(at(x, in));
  });
  for (const auto& [d, sum] : of_x) {
    const float found = dx.at(d[0], d[1], d[2], d[3]);
    ASSERT_NEAR(found, sum, tolerance * (1 + std::abs(sum))) << "backward data";
  }
  for (const auto& [d, sum] : of_w) {
    const std::ptrdiff_t place = &dw.at(d[0], d[1], d[2], d[3]) - dw.data();
    ASSERT_NEAR(dw.data()[place] - before[static_cast<std::size_t>(place)], sum, 1e-3) << "backward filter";
  }
}

TEST(Emulated, ConvolutionsInGroups) {
  const auto in_groups = [](std::int32_t groups, std::int32_t stride, std::int32_t pad, bool relu = false) {
    convolution how{stride, stride, pad, pad, relu};
    how.groups = groups;
    return how;
  };
  for (const grouped_case& p :
       {grouped_case{{2, 8, 7, 6}, {8, 1, 3, 3}, in_groups(8, 1, 1), 7, 6},
        grouped_case{{2, 140, 11, 11}, {140, 1, 3, 3}, in_groups(140, 1, 1, true), 11, 11},
        grouped_case{{1, 12, 9, 8}, {12, 1, 3, 3}, in_groups(12, 1, 0), 7, 6},
        grouped_case{{2, 12, 8, 8}, {12, 1, 3, 3}, in_groups(12, 2, 0), 3, 3},  // leaves some over
        grouped_case{{2, 4, 9, 5}, {4, 1, 3, 3}, in_groups(4, 1, -1), 5, 1},
        grouped_case{{2, 6, 6, 5}, {12, 1, 5, 5}, in_groups(6, 1, 2), 6, 5},
        grouped_case{{2, 8, 6, 6}, {16, 4, 3, 3}, in_groups(2, 1, 1), 6, 6}}) {
    for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
      for (const std::size_t offset : {0, 1}) {
        if (p.x.c > 100 && (order == memory_order::nchw || offset > 0)) continue;  // a block of threads each
        SCOPED_TRACE(testing::Message()
                     << to_text(p.x) << ' ' << to_text(p.w) << ' ' << to_text(order) << " offset " << offset);
        check_grouped<float>(p, order, offset);
        check_grouped<bf16>(p, order, offset);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// --- copies of boxes ---

TEST(Emulated, RunsAreCopiedInLaunchesOfAnySize) {
  const byte_box box{12, 5, 3, 16, 90, 20, 128};
  std::vector<std::byte> from(3 * 90), expected(3 * 128);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251 + 1);
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::size_t h = 0; h < 5; ++h) {
      for (std::size_t w = 0; w < 12; ++w) expected[d * 128 + h * 20 + w] = from[d * 90 + h * 16 + w];
    }
  }
  for (const std::uint64_t most : {1, 2, 5, 6, 7, 12, 1000}) {
    std::vector<std::byte> to(expected.size());
    launch_runs<std::uint16_t>(nullptr, to.data(), from.data(), box, most);
    EXPECT_EQ(to, expected) << most;
  }
}

// --- gradients of filters of few input channels ---

struct planar_case {
  dims x, w;
  int stride = 1, pad = 0;
  bool add = false;
};

dims result_of(const planar_case& p) {
  const auto extent = [&](std::int64_t of, std::int64_t taps) {
    return (of + 2 * p.pad - taps) / p.stride + 1;
  };
  return {p.x.n, p.w.n, extent(p.x.h, p.w.h), extent(p.x.w, p.w.w)};
}

void check_planar(const planar_case& p) {
  const dims y = result_of(p);
  const direct_convolution of{p.x, p.w, y, {p.stride, p.stride, p.pad, p.pad, false}, dtype::f32};
  ASSERT_TRUE(planar_filter_gradient_fits(of));
  std::mt19937 random(11);
  const auto some = [&](const dims& shape) {
    std::vector<float> all(static_cast<std::size_t>(element_count(shape)));
    for (float& value : all) value = static_cast<float>(random() % 64) / 32.0F - 1.0F;
    return all;
  };
  const std::vector<float> x = some(p.x), dy = some(y), before = some(p.w);
  constexpr int multiprocessors = 2;  // blocks take several tiles, and one block's partials differ
  std::vector<float> dw = before,
                     workspace(planar_filter_gradient_workspace(multiprocessors, of) / sizeof(float));
  planar_filter_gradient({nullptr, multiprocessors}, of, x.data(), dy.data(), dw.data(), p.add,
                         workspace.data());
  const tensor_strides in_x(p.x, memory_order::nchw), in_y(y, memory_order::nchw),
      in_w(p.w, memory_order::nchw);
  for (std::int64_t i = 0; i < element_count(p.w); ++i) {
    const std::int64_t s = i % p.w.w, r = i / p.w.w % p.w.h, c = i / (p.w.w * p.w.h) % p.w.c,
                       k = i / (p.w.w * p.w.h * p.w.c);
    double sum = p.add ? before[static_cast<std::size_t>(in_w.at(k, c, r, s))] : 0;
    for (std::int64_t n = 0; n < y.n; ++n) {
      for (std::int64_t h = 0; h < y.h; ++h) {
        for (std::int64_t w = 0; w < y.w; ++w) {
          const std::int64_t row = h * p.stride - p.pad + r, column = w * p.stride - p.pad + s;
          if (row < 0 || row >= p.x.h || column < 0 || column >= p.x.w) continue;
          sum += static_cast<double>(dy[static_cast<std::size_t>(in_y.at(n, k, h, w))]) *
                 x[static_cast<std::size_t>(in_x.at(n, c, row, column))];
        }
      }
    }
    ASSERT_NEAR(dw[static_cast<std::size_t>(in_w.at(k, c, r, s))], sum, 1e-3 * (1 + std::abs(sum)))
        << to_text(p.w) << " of " << to_text(p.x) << " at " << k << ", " << c << ", " << r << ", " << s;
  }
}

TEST(Emulated, FilterGradientsOfFewInputChannels) {
  check_planar({{2, 3, 9, 40}, {64, 3, 3, 3}, 1, 1});           // rows in vectors, several tiles
  check_planar({{3, 1, 7, 37}, {32, 1, 3, 3}, 1, 1, true});     // rows not aligned, one channel
  check_planar({{2, 4, 11, 70}, {96, 4, 3, 3}, 2, 1});          // half of the channels a block
  check_planar({{2, 3, 13, 33}, {64, 3, 3, 3}, 2, 0, true});    // no padding
  check_planar({{2, 3, 21, 75}, {64, 3, 7, 7}, 2, 3});          // ResNet's first
  check_planar({{1, 4, 17, 21}, {128, 4, 7, 7}, 2, 3, true});   // two groups of channels
  check_planar({{2, 3, 31, 151}, {64, 3, 11, 11}, 4, 2});       // AlexNet's first
  check_planar({{1, 2, 27, 27}, {32, 2, 11, 11}, 4, 0, true});  // one run of pixels a row
}

TEST(Emulated, FilterGradientsThatNoKernelIsFor) {
  const auto fits = [](const dims& x, const dims& w, convolution attributes, dtype type = dtype::f32) {
    const dims y{x.n, w.n, (x.h + 2 * attributes.pad_h - w.h) / attributes.stride_h + 1,
                 (x.w + 2 * attributes.pad_w - w.w) / attributes.stride_w + 1};
    return planar_filter_gradient_fits({x, w, y, attributes, type});
  };
  const dims x{2, 3, 32, 32};
  EXPECT_TRUE(fits(x, {64, 3, 3, 3}, {1, 1, 1, 1, false}));
  EXPECT_FALSE(fits(x, {64, 3, 3, 3}, {1, 1, 1, 1, false}, dtype::bf16));
  EXPECT_FALSE(fits(x, {48, 3, 3, 3}, {1, 1, 1, 1, false}));
  EXPECT_FALSE(fits(x, {64, 3, 5, 5}, {1, 1, 2, 2, false}));
  EXPECT_FALSE(fits(x, {64, 3, 3, 3}, {2, 1, 1, 1, false}));
  EXPECT_FALSE(fits({2, 8, 32, 32}, {64, 8, 3, 3}, {1, 1, 1, 1, false}));
  EXPECT_FALSE(fits({2, 4, 64, 64}, {64, 4, 11, 11}, {4, 4, 2, 2, false}));  // 352 threads
}

// --- steps of optimizers ---

struct stepped_values {
  std::vector<float> w, dw, m, v, master;
  std::vector<bf16> narrow;
};

// More tensors than a launch carries, of less than a vector and of more than a block; every fourth in bf16,
// every fifth behind an odd address.
std::vector<stepped_values> many_parameters(std::size_t count) {
  std::minstd_rand random(1);
  std::vector<stepped_values> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size =
        std::array<std::size_t, 3>{1, 7, 20}.at(i % 3) + (i % 100 == 4 ? 4099 : 0) + i % 5 % 2;
    const auto some = [&](double least) {
      std::vector<float> values(size);
      for (float& value : values)
        value = static_cast<float>(least + static_cast<double>(random() % 1024) / 1024);
      return values;
    };
    all.push_back({some(-0.5), some(-0.5), some(-0.5), some(0), some(-0.5), {}});
    if (i % 4 == 0) all.back().narrow.resize(size);
  }
  return all;
}

stepped_tensor operands_of(stepped_values& p, std::size_t first) {
  const bool narrow = !p.narrow.empty();
  return {narrow ? static_cast<void*>(p.narrow.data() + first) : p.w.data() + first,
          p.dw.data() + first,
          p.m.data() + first,
          p.v.data() + first,
          narrow ? p.master.data() + first : nullptr,
          static_cast<std::int64_t>(p.w.size() - first)};
}

TEST(Emulated, OneStepOverManyParameters) {
  for (const std::int32_t moments : {0, 1, 2}) {
    const optimizer_step how{moments, 0.125F};
    std::vector<stepped_values> before = many_parameters(most_stepped_tensors + 40), after = before;
    std::vector<stepped_tensor> operands;
    for (std::size_t i = 0; i < after.size(); ++i) operands.push_back(operands_of(after[i], i % 5 % 2));
    std::int32_t steps = 3;
    take_step({nullptr, 2}, operands, how, &steps);
    EXPECT_EQ(steps, moments == 2 ? 4 : 3);
    for (std::size_t i = 0; i < after.size(); ++i) {
      const bool narrow = !after[i].narrow.empty();
      for (std::size_t j = i % 5 % 2; j < after[i].w.size(); ++j) {
        const double g = before[i].dw[j], beta1 = how.beta1, beta2 = how.beta2;
        double w = narrow ? before[i].master[j] : before[i].w[j], m = before[i].m[j], v = before[i].v[j],
               by = g;
        if (moments == 1) by = m = beta1 * m + g;
        if (moments == 2) {
          m = beta1 * m + (1 - beta1) * g;
          v = beta2 * v + (1 - beta2) * g * g;
          w *= 1 - double{how.learning_rate} * double{how.decay};
          by = m / (1 - std::pow(beta1, 4)) / (std::sqrt(v / (1 - std::pow(beta2, 4))) + double{how.epsilon});
        }
        w -= double{how.learning_rate} * by;
        const std::vector<float>& stepped = narrow ? after[i].master : after[i].w;
        ASSERT_NEAR(stepped[j], w, 1e-6 * (1 + std::abs(w)))
            << moments << " moments, tensor " << i << " at " << j;
        ASSERT_NEAR(after[i].m[j], m, 1e-6);
        ASSERT_NEAR(after[i].v[j], v, 1e-6);
        if (!narrow) continue;
        ASSERT_EQ(__bfloat162float(after[i].narrow[j]), __bfloat162float(__float2bfloat16_rn(stepped[j])));
      }
    }
  }
}

}  // namespace
}  // namespace um::kernels
