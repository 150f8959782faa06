// Kernels whose threads do without each other, on the CPU: no GPU is needed for their arithmetic of indices.
#include "tests/cuda/emulated.hpp"
// The sources themselves.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cuda/kernels/average_pool.cu"
#include "backends/cuda/kernels/pitched_copy.cu"

namespace um::kernels {
namespace {

TEST(Emulated, PositionsAreTheSameByEitherIndex) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const dims shape{3, 8, 5, 7};
    const laid_out where(shape, order);
    for (const int vector : {1, 4}) {
      if (order == memory_order::nchw && vector > 1) continue;
      const position_finder<std::uint32_t> narrow(shape, order, vector);
      const position_finder<std::uint64_t> wide(shape, order, vector);
      for (std::uint32_t i = 0; i < elements(shape) / vector; ++i) {
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
  EXPECT_EQ(wide(static_cast<std::uint64_t>(elements(shape)) - 1), (dims{(1 << 20) - 1, 63, 55, 55}));
}

// --- average pools ---

// Values of a tensor in memory, behind `offset` elements, which decide how they are aligned.
template <class T>
class values {
 public:
  values(const dims& shape, memory_order order, std::size_t offset)
      : laid_(shape, order), offset_(offset), data_(offset + static_cast<std::size_t>(elements(shape)) + 16) {
    first_ =
        (16 - reinterpret_cast<std::uintptr_t>(data_.data()) % 16) / sizeof(T) % (16 / sizeof(T)) + offset_;
  }
  T* data() { return data_.data() + first_; }
  T& at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return data()[laid_.at(n, c, h, w)];
  }

 private:
  laid_out laid_;
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
    for (std::int64_t i = 0; i < elements(shape); ++i)
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

}  // namespace
}  // namespace um::kernels
