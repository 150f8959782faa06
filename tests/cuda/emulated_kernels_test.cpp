// Kernels on the CPU: no GPU is needed for their arithmetic of indices.
#include "tests/cuda/emulated.hpp"
// The sources themselves.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "backends/cuda/kernels/average_pool.cu"
#include "backends/cuda/kernels/grouped_convolution.cu"
#include "backends/cuda/kernels/optimizer_step.cu"
#include "backends/cuda/kernels/pitched_copy.cu"
#include "backends/cuda/kernels/planar_filter_gradient.cu"
#include "backends/cuda/kernels/pool.cuh"
#include "core/access.hpp"
#include "tests/reference/reference.hpp"

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
  const bool planes = Layout::is_planar;
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
  const memory_order order = Layout::is_planar ? memory_order::nchw : memory_order::nhwc;
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

// --- operators, held against the reference ---

// A tensor in memory, behind `offset` elements, which decide how it is aligned.
template <class T>
class operand {
 public:
  operand(const dims& shape, memory_order order, std::size_t offset = 0)
      : what_{"t", shape, sizeof(T) == 2 ? dtype::bf16 : dtype::f32, role::activation, order},
        data_(offset + count() + 16) {
    first_ =
        (16 - reinterpret_cast<std::uintptr_t>(data_.data()) % 16) / sizeof(T) % (16 / sizeof(T)) + offset;
  }
  T* data() { return data_.data() + first_; }
  reference::values numbers() {
    reference::values all(count());
    for (std::size_t i = 0; i < all.size(); ++i) all[place_of(i)] = static_cast<float>(data()[i]);
    return all;
  }
  void set(const reference::values& numbers) {
    for (std::size_t i = 0; i < count(); ++i) data()[i] = static_cast<float>(numbers.at(place_of(i)));
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(element_count(what_.shape)); }
  std::size_t place_of(std::size_t i) const {
    return static_cast<std::size_t>(logical_index(what_, static_cast<std::int64_t>(i)));
  }

  tensor what_;
  std::size_t first_ = 0;
  std::vector<T> data_;
};

// Numbers from -2 to 2 that bf16 holds.
reference::values some_numbers(const dims& shape, std::mt19937& random) {
  reference::values all(static_cast<std::size_t>(element_count(shape)));
  for (double& number : all) number = static_cast<double>(random() % 64) / 16 - 2;
  return all;
}

graph graph_with(std::initializer_list<dims> shapes) {
  graph g;
  for (const dims& shape : shapes) g.tensors.push_back({"t", shape, dtype::f32, role::activation});
  return g;
}

// The values of tensor `out` by an operator that reads tensors `in`.
reference::values expected_of(const graph& g, op_attributes attributes, std::vector<tensor_id> in,
                              tensor_id out, const std::vector<reference::values>& given) {
  return reference::execute(g, {"o", std::move(attributes), std::move(in), {out}, true, {}}, given).at(0);
}

void expect_near(const reference::values& found, const reference::values& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], wanted[i], tolerance * (1 + std::abs(wanted[i]))) << "at " << i;
  }
}

// --- average pools ---

struct pool_case {
  average_pool attributes;
  std::int64_t h = 0, w = 0, y_h = 0, y_w = 0;
};

reference::values rows_of(const dims& shape, const reference::values& all, const interval& rows) {
  reference::values some;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / shape.w % shape.h;
    if (row >= rows.begin && row < rows.end) some.push_back(all[i]);
  }
  return some;
}

// Some rows of a pool's result, or of its gradient, from the rows that they need.
template <class T>
void check_part(const average_pool& attributes, const graph& g, const box& part, memory_order order,
                std::size_t offset) {
  const op& o = g.ops[0];
  const bool forward = std::holds_alternative<average_pool>(o.attributes.value);
  const std::vector<access> touched = accesses_of(g, o, part);
  const interval read = touched[0].where.row, written = touched[1].where.row;
  dims in = g.tensors[0].shape, out = g.tensors[1].shape;
  std::mt19937 random(7);
  const reference::values given = some_numbers(in, random),
                          wanted = reference::execute(g, o, {{given}}).at(0);
  const reference::values given_rows = rows_of(in, given, read), wanted_rows = rows_of(out, wanted, written);
  const std::int64_t height = (forward ? in : out).h;
  in.h = read.size();
  out.h = written.size();
  operand<T> from(in, order, offset), to(out, order, offset);
  from.set(given_rows);
  const dtype type = sizeof(T) == 2 ? dtype::bf16 : dtype::f32;
  if (forward) {
    average_pool_forward({}, from.data(), to.data(),
                         {in, out, attributes, type, order, read.begin, written.begin, height});
  } else {
    average_pool_backward({}, from.data(), to.data(),
                          {out, in, attributes, type, order, written.begin, read.begin, height});
  }
  expect_near(to.numbers(), wanted_rows, sizeof(T) == 2 ? 1.0 / 128 : 1e-6);
}

class AveragePools : public testing::TestWithParam<pool_case> {};

TEST_P(AveragePools, PartsOfRowsInAnyOrderTypeAndAlignment) {
  const pool_case p = GetParam();
  for (const std::int64_t channels : {1, 5, 8}) {
    const dims x{2, channels, p.h, p.w}, y{2, channels, p.y_h, p.y_w};
    graph forward = graph_with({x, y}), backward = graph_with({y, x});
    forward.ops = {{"o", p.attributes, {0}, {1}, true, {}}};
    backward.ops = {{"o", um::average_pool_backward{p.attributes}, {0}, {1}, true, {}}};
    for (const graph& g : {forward, backward}) {
      const std::int64_t height = g.tensors[1].shape.h;
      for (const interval& rows :
           {interval{0, height}, interval{0, height / 2}, interval{height / 2, height}}) {
        for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
          for (const std::size_t offset : {0, 1}) {
            SCOPED_TRACE(testing::Message()
                         << kind_of(g.ops[0].attributes) << ' ' << rows.begin << " to " << rows.end << ' '
                         << to_text(order) << ' ' << channels << " channels, offset " << offset);
            check_part<float>(p.attributes, g, {{}, {}, rows, {}}, order, offset);
            check_part<bf16>(p.attributes, g, {{}, {}, rows, {}}, order, offset);
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
  convolution attributes;
  std::int64_t y_h = 0, y_w = 0;
};

template <class T>
void check_grouped(const grouped_case& p, memory_order order, std::size_t offset) {
  const grouped_convolution of{
      p.x, p.w, {p.x.n, p.w.n, p.y_h, p.y_w}, p.attributes, sizeof(T) == 2 ? dtype::bf16 : dtype::f32, order};
  const dims vector{1, of.w.n, 1, 1};
  const graph g = graph_with({of.x, of.w, vector, of.y});
  operand<T> x(of.x, order, offset), w(of.w, order), y(of.y, order, offset), dx(of.x, order, offset);
  operand<float> b(vector, order), dw(of.w, order);
  std::mt19937 random(11);
  x.set(some_numbers(of.x, random));
  w.set(some_numbers(of.w, random));
  b.set(some_numbers(vector, random));
  constexpr launch_site where{nullptr, 2};  // multiprocessors
  const double tolerance = sizeof(T) == 2 ? 1.0 / 128 : 1e-5;
  grouped_forward(where, of, x.data(), w.data(), b.data(), y.data());
  expect_near(y.numbers(),
              expected_of(g, p.attributes, {0, 1, 2}, 3, {x.numbers(), w.numbers(), b.numbers()}), tolerance);

  y.set(some_numbers(of.y, random));
  grouped_backward_data(where, of, w.data(), y.data(), dx.data());
  expect_near(dx.numbers(),
              expected_of(g, convolution_backward_data{p.attributes}, {1, 3}, 0, {w.numbers(), y.numbers()}),
              tolerance);

  reference::values sums =
      expected_of(g, convolution_backward_filter{p.attributes}, {0, 3}, 1, {x.numbers(), y.numbers()});
  for (double& sum : sums) sum += 0.5;
  dw.set(reference::values(sums.size(), 0.5));
  std::vector<float> workspace(grouped_filter_workspace(where.multiprocessors, of) / sizeof(float), NAN);
  grouped_backward_filter(where, of, x.data(), y.data(), dw.data(), true, workspace.data());
  expect_near(dw.numbers(), sums, 1e-4);
}

TEST(Emulated, ConvolutionsInGroups) {
  const auto in_groups = [](std::int32_t groups, std::int32_t stride, std::int32_t pad, bool relu = false) {
    convolution attributes{stride, stride, pad, pad, relu};
    attributes.groups = groups;
    return attributes;
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
  SCOPED_TRACE(to_text(p.w) + " of " + to_text(p.x));
  const dims y = result_of(p);
  const direct_convolution of{p.x, p.w, y, {p.stride, p.stride, p.pad, p.pad, false}, dtype::f32};
  ASSERT_TRUE(planar_filter_gradient_fits(of));
  std::mt19937 random(11);
  operand<float> x(p.x, memory_order::nchw), dy(y, memory_order::nchw), dw(p.w, memory_order::nchw);
  x.set(some_numbers(p.x, random));
  dy.set(some_numbers(y, random));
  reference::values wanted =
      expected_of(graph_with({p.x, p.w, y}), convolution_backward_filter{of.attributes}, {0, 2}, 1,
                  {x.numbers(), dy.numbers()});
  dw.set(reference::values(wanted.size(), 0.5));
  for (double& sum : wanted) sum += p.add ? 0.5 : 0;
  constexpr int multiprocessors = 2;  // blocks take several tiles, and one block's partials differ
  std::vector<float> workspace(planar_filter_gradient_workspace(multiprocessors, of) / sizeof(float));
  planar_filter_gradient({nullptr, multiprocessors}, of, x.data(), dy.data(), dw.data(), p.add,
                         workspace.data());
  expect_near(dw.numbers(), wanted, 1e-3);
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
    const optimizer_step attributes{moments, 0.125F};
    std::vector<stepped_values> before = many_parameters(max_stepped_tensors + 40), after = before;
    std::vector<stepped_tensor> operands;
    for (std::size_t i = 0; i < after.size(); ++i) operands.push_back(operands_of(after[i], i % 5 % 2));
    std::int32_t steps = 3;
    take_optimizer_step({nullptr, 2}, operands, attributes, &steps);
    EXPECT_EQ(steps, moments == 2 ? 4 : 3);
    for (std::size_t i = 0; i < after.size(); ++i) {
      const bool narrow = !after[i].narrow.empty();
      for (std::size_t j = i % 5 % 2; j < after[i].w.size(); ++j) {
        const double g = before[i].dw[j], beta1 = attributes.beta1, beta2 = attributes.beta2;
        double w = narrow ? before[i].master[j] : before[i].w[j], m = before[i].m[j], v = before[i].v[j],
               by = g;
        if (moments == 1) by = m = beta1 * m + g;
        if (moments == 2) {
          m = beta1 * m + (1 - beta1) * g;
          v = beta2 * v + (1 - beta2) * g * g;
          w *= 1 - double{attributes.learning_rate} * double{attributes.decay};
          by = m / (1 - std::pow(beta1, 4)) /
               (std::sqrt(v / (1 - std::pow(beta2, 4))) + double{attributes.epsilon});
        }
        w -= double{attributes.learning_rate} * by;
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
