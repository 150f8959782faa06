#include "core/access.hpp"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <variant>

#include "tests/refusal.hpp"

namespace um {
namespace {

// Part `part` of `of` along one axis of an operator.
struct slice {
  axis along = axis::batch;
  std::uint32_t part = 0, of = 1;
};
constexpr slice batch_half{axis::batch, 1, 2};
constexpr slice channel_half{axis::channel, 1, 2};
constexpr slice row_half{axis::row, 1, 2};

interval& range_of(box& b, axis along) {
  return along == axis::batch     ? b.batch
         : along == axis::channel ? b.channel
         : along == axis::row     ? b.row
                                  : b.reduction;
}

// An access, and the shape of its tensor.
struct seen : access {
  dims shape;
};

struct single {
  graph g;
  const op& o() const { return g.ops[0]; }
  box part(const slice& s) const {
    box all = iteration_domain(g, o()), b;
    range_of(b, s.along) = part_of(range_of(all, s.along).end, s.part, s.of);
    return b;
  }
  std::vector<seen> cut(const box& b) const {
    std::vector<seen> all;
    for (const access& a : accesses_of(g, o(), b)) all.push_back({a, g.tensors[a.tensor].shape});
    return all;
  }
  std::vector<seen> cut(const slice& s) const { return cut(part(s)); }
};

// One operator over tensors of the given shapes: its inputs, then its outputs.
single operator_over(op_attributes what, std::vector<dims> shapes, std::size_t inputs) {
  single s;
  op o{"op", what, {}, {}, true, std::nullopt};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    s.g.tensors.push_back({"t" + std::to_string(i), shapes[i], dtype::f32, role::activation});
    (i < inputs ? o.in : o.out).push_back(static_cast<tensor_id>(i));
  }
  s.g.ops.push_back(o);
  return s;
}

void expect_regions(const std::vector<seen>& got, const std::vector<box>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].where, region_of(got[i].shape, wanted[i]))
        << "operand " << i << ": " << to_text(got[i].shape, got[i].where) << ", not " << to_text(wanted[i]);
  }
}

constexpr box batch_of(std::int64_t begin, std::int64_t end) {
  return {{begin, end}, {}, {}, {}};
}
constexpr box channels(std::int64_t begin, std::int64_t end) {
  return {{}, {begin, end}, {}, {}};
}
constexpr box rows(std::int64_t begin, std::int64_t end) {
  return {{}, {}, {begin, end}, {}};
}

// AlexNet's first layer in small: 11 x 11 windows, stride 4, padding 2 over 39 rows: 9 rows out.
constexpr convolution strided{4, 4, 2, 2};
constexpr dims x{4, 3, 39, 39}, w{8, 3, 11, 11}, channel_vector{1, 8, 1, 1}, y{4, 8, 9, 9};

single strided_convolution() {
  return operator_over(strided, {x, w, channel_vector, y}, 3);
}
single strided_backward_data() {
  return operator_over(convolution_backward_data{strided}, {w, y, x}, 2);
}
single strided_backward_filter() {
  return operator_over(convolution_backward_filter{strided}, {x, y, w}, 2);
}

TEST(Part, PartsCoverTheExtentInOrder) {
  for (const std::uint32_t of : {3U, 5U, 7U}) {
    std::int64_t next = 0;
    for (std::uint32_t part = 0; part < of; ++part) {
      const interval i = part_of(10, part, of);
      EXPECT_EQ(i.begin, next);
      EXPECT_GE(i.size(), 10 / of);
      EXPECT_LE(i.size(), 10 / of + 1);
      next = i.end;
    }
    EXPECT_EQ(next, 10);
  }
}

TEST(Part, PartsOfAMultipleNest) {
  for (std::uint32_t part = 0; part < 3; ++part) {
    const interval coarse = part_of(10, part, 3);
    EXPECT_EQ(coarse.begin, part_of(10, 2 * part, 6).begin);
    EXPECT_EQ(coarse.end, part_of(10, 2 * part + 1, 6).end);
  }
}

TEST(Part, LargeExtentsDoNotOverflow) {
  const std::int64_t extent = 1LL << 62;
  EXPECT_EQ(part_of(extent, 0xFFFFFFFE, 0xFFFFFFFF).end, extent);
}

TEST(Part, RefusesPartsThatDoNotExist) {
  EXPECT_THROW(batch_part(4, 2, 2), std::invalid_argument);
  EXPECT_THROW(batch_part(4, 0, 0), std::invalid_argument);
  EXPECT_THROW(batch_part(4, 0, 5), std::invalid_argument);
  EXPECT_EQ(batch_part(4, 0, 1), box{});
}

TEST(Region, RefusesRangesThatDoNotExist) {
  EXPECT_EQ(region_of(x, box{}), whole_of(x));
  EXPECT_THROW(region_of(x, batch_of(1, 1)), std::invalid_argument);
  EXPECT_THROW(region_of(x, batch_of(3, 2)), std::invalid_argument);
  EXPECT_THROW(region_of(x, channels(0, 4)), std::invalid_argument);
  EXPECT_THROW(region_of(x, rows(-1, 2)), std::invalid_argument);
  EXPECT_THROW(region_of(x, box{{}, {}, {}, {0, 1}}), std::invalid_argument);
}

TEST(Region, MeetsAndContains) {
  const region a{{0, 2}, {0, 3}, {0, 10}}, b{{1, 4}, {0, 3}, {5, 20}};
  EXPECT_EQ(intersection(a, b), (region{{1, 2}, {0, 3}, {5, 10}}));
  EXPECT_EQ(intersection(a, {{2, 4}, {0, 3}, {0, 39}}), std::nullopt);
  EXPECT_TRUE(contains(whole_of(x), a));
  EXPECT_FALSE(contains(a, b));
  EXPECT_EQ(relative_to(b, {{1, 4}, {0, 3}, {4, 39}}), (region{{0, 3}, {0, 3}, {1, 16}}));
  EXPECT_EQ(region_of(x, box_of(x, a)), a);
  EXPECT_EQ(to_text(x, a), "[batch 0:2, row 0:10]");
}

TEST(Region, CountsBytes) {
  const tensor t{"x", x, dtype::f32, role::input};
  const auto bytes = [&](const box& b) { return bytes_of(t, region_of(x, b)); };
  EXPECT_EQ(bytes(batch_of(1, 3)), 2U * 3 * 39 * 39 * 4);
  EXPECT_EQ(bytes(channels(0, 3)), bytes_of(t));
  EXPECT_EQ(bytes(rows(5, 6)), 4U * 3 * 39 * 4);
  EXPECT_EQ(bytes({{1, 3}, {0, 2}, {5, 8}, {}}), 2U * 2 * 3 * 39 * 4);
  EXPECT_TRUE(is_whole(x, region_of(x, rows(0, 39))));
  EXPECT_FALSE(is_whole(x, region_of(x, rows(0, 38))));
}

// What a part of an operator touches: mode and part of each operand, as "read [batch 2:4] accumulate"; ""
// where there is no such part.
std::string touched_by(const single& s, const box& part) {
  std::string text;
  try {
    for (const seen& a : s.cut(part)) {
      constexpr std::array modes{"read", "write", "accumulate"};
      text += (text.empty() ? "" : ", ") + std::string(modes.at(static_cast<std::size_t>(a.mode)));
      if (!is_whole(a.shape, a.where)) text += " " + to_text(a.shape, a.where);
    }
  } catch (const std::invalid_argument&) {
  }
  return text;
}

struct cut_case {
  single what;
  std::vector<std::pair<std::variant<slice, box>, std::string>> touched;
};

void expect_touched(const std::vector<cut_case>& cases) {
  for (const cut_case& c : cases) {
    for (const auto& [how, wanted] : c.touched) {
      const auto* along = std::get_if<slice>(&how);
      const box part = along != nullptr ? c.what.part(*along) : std::get<box>(how);
      EXPECT_EQ(touched_by(c.what, part), wanted) << kind_of(c.what.o().attributes) << " " << to_text(part);
    }
  }
}

TEST(Accesses, OfConvolutions) {
  const box sum{{}, {}, {}, {1, 3}};
  expect_touched({
      {strided_convolution(),
       {{box{}, "read, read, read, write"},
        {batch_half, "read [batch 2:4], read, read, write [batch 2:4]"},
        {channel_half, "read, read [batch 4:8], read [channel 4:8], write [channel 4:8]"},
        // Output rows 3 to 5 start at input rows 10, 14 and 18 and reach 11 rows down.
        {slice{axis::row, 1, 3}, "read [row 10:29], read, read, write [row 3:6]"},
        // The first and last part reach into the padding, which is not there to be read.
        {slice{axis::row, 0, 3}, "read [row 0:17], read, read, write [row 0:3]"},
        {slice{axis::row, 2, 3}, "read [row 22:39], read, read, write [row 6:9]"},
        {box{{1, 3}, {2, 5}, {3, 6}, {}},
         "read [batch 1:3, row 10:29], read [batch 2:5], read [channel 2:5], "
         "write [batch 1:3, channel 2:5, row 3:6]"},
        {sum, "read [channel 1:3], read [channel 1:3], read, accumulate"},
        {box{{}, {}, {}, {0, 1}}, "read [channel 0:1], read [channel 0:1], read, write"}}},
      {strided_backward_data(),
       {{batch_half, "read, read [batch 2:4], write [batch 2:4]"},
        {slice{axis::channel, 2, 3}, "read [channel 2:3], read, write [channel 2:3]"},
        {box{{}, {}, {}, {2, 6}}, "read [batch 2:6], read [channel 2:6], accumulate"}}},
      // Sums over the batch and rows accumulate from the second part on; only the one at the origin writes.
      {strided_backward_filter(),
       {{slice{axis::batch, 0, 2}, "read [batch 0:2], read [batch 0:2], write"},
        {batch_half, "read [batch 2:4], read [batch 2:4], accumulate"},
        {channel_half, "read, read [channel 4:8], write [batch 4:8]"},
        {slice{axis::row, 1, 3}, "read [row 10:29], read [row 3:6], accumulate"},
        {box{{0, 2}, {}, {3, 6}, {}}, "read [batch 0:2, row 10:29], read [batch 0:2, row 3:6], accumulate"},
        {box{{0, 2}, {}, {0, 3}, {}}, "read [batch 0:2, row 0:17], read [batch 0:2, row 0:3], write"},
        {sum, "read [channel 1:3], read, write [channel 1:3]"},
        {box{{}, {4, 8}, {}, {1, 3}},
         "read [channel 1:3], read [channel 4:8], write [batch 4:8, channel 1:3]"}}},
      {operator_over(bias_backward{}, {y, channel_vector}, 1),
       {{batch_half, "read [batch 2:4], accumulate"},
        {channel_half, "read [channel 4:8], write [channel 4:8]"},
        {row_half, "read [row 4:9], accumulate"}}},
  });
}

TEST(Accesses, OfPools) {
  // 10 rows, window 3, stride 2: rounded up there are 5 windows, and the last is clipped.
  const dims in{2, 4, 10, 10}, out{2, 4, 5, 5}, bias{1, 4, 1, 1}, image{4, 3, 9, 9}, pooled{4, 3, 5, 5};
  const average_pool mean{3, 3, 2, 2, 1, 1};
  expect_touched({
      {operator_over(max_pool{3, 2, 0}, {in, out, out}, 1),
       {{batch_half, "read [batch 1:2], write [batch 1:2], write [batch 1:2]"},
        {channel_half, "read [channel 2:4], write [channel 2:4], write [channel 2:4]"},
        {slice{axis::row, 1, 5}, "read [row 2:5], write [row 1:2], write [row 1:2]"},
        {slice{axis::row, 4, 5}, "read [row 8:10], write [row 4:5], write [row 4:5]"}}},
      {operator_over(max_pool_backward{{3, 2, 0}}, {out, out, in}, 2),
       {{slice{axis::row, 4, 10}, "read [row 1:3], read [row 1:3], write [row 4:5]"},
        {slice{axis::row, 5, 10}, "read [row 2:3], read [row 2:3], write [row 5:6]"}}},
      // 5 rows, window 2, stride 2: no window covers the last row.
      {operator_over(max_pool_backward{{2, 2, 0}}, {{1, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 5, 5}}, 2),
       {{slice{axis::row, 4, 5}, "read [row 1:2], read [row 1:2], write [row 4:5]"}}},
      {operator_over(max_pool{3, 2, 0, true}, {in, bias, out, out}, 2),
       {{slice{axis::row, 1, 5}, "read [row 2:5], read, write [row 1:2], write [row 1:2]"},
        {channel_half, "read [channel 2:4], read [channel 2:4], write [channel 2:4], write [channel 2:4]"}}},
      {operator_over(max_pool_backward{{3, 2, 0, true}}, {out, out, out, in, bias}, 3),
       {{batch_half, "read [batch 1:2], read [batch 1:2], read [batch 1:2], write [batch 1:2], accumulate"},
        {channel_half,
         "read [channel 2:4], read [channel 2:4], read [channel 2:4], write [channel 2:4], write [channel "
         "2:4]"},
        {row_half, ""}}},  // a window that meets two parts' rows would add to the bias gradient twice
      {operator_over(max_pool_backward{{3, 2, 0, true}}, {out, out, out, in}, 3),
       {{slice{axis::row, 4, 10}, "read [row 1:3], read [row 1:3], read [row 1:3], write [row 4:5]"}}},
      {operator_over(mean, {image, pooled}, 1),
       {{slice{axis::row, 0, 2}, "read [row 0:4], write [row 0:2]"},
        {row_half, "read [row 3:9], write [row 2:5]"}}},
      {operator_over(average_pool_backward{mean}, {pooled, image}, 1),
       {{row_half, "read [row 2:5], write [row 4:9]"},
        {channel_half, "read [channel 1:3], write [channel 1:3]"}}},
  });
}

TEST(Accesses, OfFullyConnectedLayersAndLosses) {
  const dims in{4, 6, 2, 2}, weights{10, 6, 2, 2}, bias{1, 10, 1, 1}, out{4, 10, 1, 1}, labels{4, 1, 1, 1};
  single update = operator_over(sgd_update{}, {w, w}, 2);
  update.g.ops[0].out = {0};
  const char* const loss = "read [batch 2:4], read [batch 2:4], accumulate, write [batch 2:4]";
  expect_touched({
      {operator_over(linear{}, {in, weights, bias, out}, 3),
       {{batch_half, "read [batch 2:4], read, read, write [batch 2:4]"},
        {channel_half, "read, read [batch 5:10], read [channel 5:10], write [channel 5:10]"}}},
      {operator_over(linear_backward_data{}, {weights, out, in}, 2),
       {{batch_half, "read, read [batch 2:4], write [batch 2:4]"},
        {slice{axis::channel, 1, 3}, "read [channel 2:4], read, write [channel 2:4]"}}},
      {operator_over(linear_backward_filter{}, {in, out, weights, bias}, 2),
       {{batch_half, "read [batch 2:4], read [batch 2:4], accumulate, accumulate"},
        {channel_half, "read, read [channel 5:10], write [batch 5:10], write [channel 5:10]"}}},
      {operator_over(softmax_cross_entropy{}, {out, labels, {}, out}, 2), {{batch_half, loss}}},
      {operator_over(softmax_cross_entropy_gradient{}, {out, labels, {}, out}, 2), {{batch_half, loss}}},
      {operator_over(softmax_cross_entropy_backward{}, {out, labels, out}, 2),
       {{batch_half, "read [batch 2:4], read [batch 2:4], write [batch 2:4]"}}},
      {update, {{batch_half, "read [batch 4:8], read [batch 4:8], write [batch 4:8]"}}},
  });
}

TEST(Accesses, OfNormalisationsAndElementwiseOperators) {
  const dims v = channel_vector, mean{4, 8, 1, 1};
  const char* const halves = "read [batch 2:4], write [batch 2:4]";
  const char* const channels_of_two = "read [channel 4:8], write [channel 4:8]";
  const auto channels_of = [](int read, int written) {
    std::string text = "read [channel 4:8]";
    for (int i = 1; i < read; ++i) text += ", read [channel 4:8]";
    for (int i = 0; i < written; ++i) text += ", write [channel 4:8]";
    return text;
  };
  expect_touched({
      {operator_over(relu{}, {y, y}, 1), {{row_half, "read [row 4:9], write [row 4:9]"}}},
      {operator_over(relu_backward{}, {y, y, y}, 2), {{channel_half, channels_of(2, 1)}}},
      {operator_over(relu_bias_backward{}, {y, y, y, v}, 2),
       {{row_half, "read [row 4:9], read [row 4:9], write [row 4:9], accumulate"},
        {channel_half, channels_of(2, 2)}}},
      {operator_over(batch_norm{}, {y, v, v, y, y, v, v}, 4),
       {{channel_half, channels_of(4, 3)}, {batch_half, ""}, {row_half, ""}}},
      {operator_over(batch_norm_backward{true, true, true}, {y, v, v, v, v, y, y, y, y, v, v, y}, 8),
       {{channel_half, channels_of(8, 4)}, {batch_half, ""}, {row_half, ""}}},
      {operator_over(normalize{}, {y, v, v, v, v, y, y}, 6),
       {{batch_half, "read [batch 2:4], read, read, read, read, read [batch 2:4], write [batch 2:4]"},
        {row_half, "read [row 4:9], read, read, read, read, read [row 4:9], write [row 4:9]"},
        {channel_half, channels_of(6, 1)}}},
      {operator_over(add{}, {y, y, y}, 2), {{row_half, "read [row 4:9], read [row 4:9], write [row 4:9]"}}},
      {operator_over(cast{}, {y, y}, 1), {{batch_half, halves}}},
      {operator_over(global_average_pool{}, {y, mean}, 1),
       {{batch_half, halves}, {channel_half, channels_of_two}, {rows(4, 9), ""}}},
      {operator_over(global_average_pool_backward{}, {mean, y}, 1),
       {{batch_half, halves}, {channel_half, channels_of_two}, {rows(4, 9), ""}}},
  });
}

// Against the definition: a row of dy is needed if its window meets a row of the part.
TEST(Accesses, ConvolutionBackwardDataTakesTheRowsWhoseWindowsMeet) {
  const single s = strided_backward_data();
  for (std::uint32_t part = 0; part < 39; ++part) {
    std::int64_t first = y.h, last = -1;
    for (std::int64_t i = 0; i < y.h; ++i) {
      const std::int64_t top = i * 4 - 2;
      if (top > part || top + 11 <= part) continue;
      first = std::min(first, i);
      last = std::max(last, i);
    }
    const auto all = s.cut(slice{axis::row, part, 39});
    expect_regions(all, {batch_of(0, 8), rows(first, last + 1), rows(part, part + 1)});
  }
}

// Bytes in the runs of a region, marked one by one, against the strides.
void expect_runs(const tensor& t, const region& r) {
  std::vector<bool> wanted(bytes_of(t)), got(bytes_of(t));
  const dims s = strides_of(t);
  const auto inside = [](const interval& i, std::int64_t at) { return i.begin <= at && at < i.end; };
  for (std::int64_t i = 0; i < element_count(t.shape); ++i) {
    const dims at{i / (t.shape.c * t.shape.h * t.shape.w), i / (t.shape.h * t.shape.w) % t.shape.c,
                  i / t.shape.w % t.shape.h, i % t.shape.w};
    const auto first = static_cast<std::size_t>(at.n * s.n + at.c * s.c + at.h * s.h + at.w * s.w);
    for (std::size_t k = 0; k < element_bytes(t.type); ++k) {
      wanted[first * element_bytes(t.type) + k] =
          inside(r.batch, at.n) && inside(r.channel, at.c) && inside(r.row, at.h);
    }
  }
  for (const range& run : runs_of(t, r)) {
    for (byte_count k = 0; k < run.bytes; ++k) {
      EXPECT_FALSE(got[run.offset + k]) << "runs meet";
      got[run.offset + k] = true;
    }
  }
  EXPECT_EQ(got, wanted) << to_text(t.order) << " " << to_text(t.shape, r);
}

TEST(Region, RunsAreWhereTheOrderPutsThem) {
  const dims shape{3, 4, 5, 2};
  const auto ranges_of = [](std::int64_t extent) {
    return std::vector<interval>{{0, extent}, {0, 1}, {1, extent - 1}, {extent - 1, extent}};
  };
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const tensor t{"x", shape, dtype::bf16, role::activation, order};
    for (const interval& n : ranges_of(shape.n)) {
      for (const interval& c : ranges_of(shape.c)) {
        for (const interval& h : ranges_of(shape.h)) expect_runs(t, {n, c, h});
      }
    }
  }
}

// Neighbours are told of as one: in nhwc a part of the rows is one run an image, in nchw one a channel.
TEST(Region, RunsAreAsLongAsTheyCanBe) {
  tensor t{"x", {3, 4, 5, 2}, dtype::f32, role::activation, memory_order::nhwc};
  const auto runs = [&](const box& b) { return runs_of(t, region_of(t.shape, b)); };
  EXPECT_EQ(runs(rows(1, 3)), (std::vector<range>{{32, 64}, {192, 64}, {352, 64}}));
  EXPECT_EQ(runs(batch_of(1, 3)), (std::vector<range>{{160, 320}}));
  EXPECT_EQ(runs(channels(1, 3)).size(), 30U);
  EXPECT_EQ(runs({{1, 2}, {}, {1, 3}, {}}).size(), 1U);
  EXPECT_TRUE(is_dense(t, region_of(t.shape, box{{1, 2}, {}, {1, 3}, {}})));
  t.order = memory_order::nchw;
  EXPECT_EQ(runs(rows(1, 3)).size(), 12U);
  EXPECT_EQ(runs(channels(1, 3)), (std::vector<range>{{40, 80}, {200, 80}, {360, 80}}));
  EXPECT_EQ(runs({{1, 2}, {1, 3}, {}, {}}), (std::vector<range>{{200, 80}}));
  EXPECT_FALSE(is_dense(t, region_of(t.shape, channels(1, 3))));
}

TEST(Accesses, OpaqueIsCutAlongTheBatchAsItSays) {
  opaque what;
  what.label = "layer_norm_backward";
  what.flops = 1000;
  single s = operator_over(what, {{4, 10, 1, 1}, w, {4, 10, 1, 1}, {1, 10, 1, 1}}, 2);
  EXPECT_THROW(s.cut(batch_half), std::invalid_argument) << "it does not say how";
  what.in = {batch_cut::part, batch_cut::whole};
  what.out = {batch_cut::part, batch_cut::sum};
  s.g.ops[0].attributes = what;
  const auto all = s.cut(batch_half);
  expect_regions(all, {batch_of(2, 4), batch_of(0, w.n), batch_of(2, 4), batch_of(0, 1)});
  EXPECT_EQ(all[2].mode, access_mode::write);
  EXPECT_EQ(all[3].mode, access_mode::accumulate);
  EXPECT_EQ(s.cut(slice{axis::batch, 0, 2})[3].mode, access_mode::write);
  EXPECT_EQ(work_of(s.g, s.o(), s.part(batch_half)).flops, 500U);
  EXPECT_THROW(s.cut(channel_half), std::invalid_argument);
}

TEST(Accesses, RefusedCutsNameOperatorAndAxis) {
  const dims rows_of{4, 10, 1, 1}, labels{4, 1, 1, 1};
  const std::vector<std::pair<single, axis>> refused{
      {operator_over(linear{}, {rows_of, {10, 10, 1, 1}, rows_of}, 2), axis::row},
      {operator_over(linear_backward_data{}, {{10, 10, 1, 1}, rows_of, rows_of}, 2), axis::row},
      {operator_over(linear_backward_filter{}, {rows_of, rows_of, {10, 10, 1, 1}}, 2), axis::row},
      {operator_over(softmax_cross_entropy{}, {rows_of, labels, {}, rows_of}, 2), axis::channel},
      {operator_over(softmax_cross_entropy{}, {rows_of, labels, {}, rows_of}, 2), axis::row},
      {operator_over(softmax_cross_entropy_backward{}, {rows_of, labels, rows_of}, 2), axis::channel},
      {operator_over(sgd_update{}, {w, w, w}, 2), axis::channel},
      {operator_over(sgd_update{}, {w, w, w}, 2), axis::row}};
  for (const auto& [s, along] : refused) {
    SCOPED_TRACE(kind_of(s.o().attributes));
    const auto cut = [&] {
      for (const interval& half : {interval{0, 1}, interval{1, 2}}) {
        box part;
        range_of(part, along) = half;
        s.cut(part);
      }
    };
    expect_words(refusal<std::invalid_argument>(cut), {"operator op", std::string(to_text(along))});
  }
}

TEST(Accesses, RangesThatDoNotExistNameTheOperator) {
  const auto reason = [](const single& s, const box& part) -> std::string {
    try {
      s.cut(part);
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_EQ(reason(strided_convolution(), rows(0, 10)),
            "operator op (convolution): there is no range 0:10 along row, which has 9 elements");
  EXPECT_NE(reason(strided_convolution(), batch_of(2, 2)), "");
  EXPECT_NE(reason(strided_convolution(), batch_of(-1, 2)), "");
  EXPECT_NE(reason(strided_convolution(), box{{}, {}, {}, {2, 4}}), "");
  convolution rectified = strided;
  rectified.relu = true;
  EXPECT_EQ(reason(operator_over(rectified, {x, w, channel_vector, y}, 3), box{{}, {}, {}, {0, 1}}),
            "operator op (convolution) cannot be cut along reduction: its ReLU is of the whole sum");
}

// A part with its padding has the windows of the whole: as many rows come out as it has, each at its place.
TEST(Accesses, PaddingThatRemains) {
  const single forward = strided_convolution(), data = strided_backward_data();
  EXPECT_EQ(padding_of(forward.g, forward.o(), box{}), (row_padding{2, 2}));
  EXPECT_EQ(padding_of(forward.g, forward.o(), rows(0, 3)), (row_padding{2, 0}));
  EXPECT_EQ(padding_of(forward.g, forward.o(), rows(3, 6)), (row_padding{0, 0}));
  EXPECT_EQ(padding_of(forward.g, forward.o(), rows(6, 9)), (row_padding{0, 2}));
  for (std::int64_t begin = 0; begin < y.h; ++begin) {
    for (std::int64_t end = begin + 1; end <= y.h; ++end) {
      const region in = forward.cut(rows(begin, end))[0].where;
      const row_padding left = padding_of(forward.g, forward.o(), rows(begin, end));
      if (begin == 0 && end == y.h) continue;
      EXPECT_EQ(in.row.begin - left.above, begin * 4 - 2);
      EXPECT_EQ(in.row.size() + left.above + left.below, (end - begin - 1) * 4 + 11);
    }
  }
  for (std::int64_t begin = 0; begin < x.h; ++begin) {
    const region windows = data.cut(rows(begin, begin + 5 > x.h ? x.h : begin + 5))[1].where;
    const row_padding left = padding_of(data.g, data.o(), rows(begin, begin + 5 > x.h ? x.h : begin + 5));
    EXPECT_EQ(begin - left.above, windows.row.begin * 4 - 2) << "the first window";
  }
}

TEST(Work, CountsMultiplyAndAdd) {
  const std::uint64_t products = 4ULL * 8 * 9 * 9 * 3 * 11 * 11;
  const single forward = strided_convolution();
  EXPECT_EQ(work_of(forward.g, forward.o()).flops, 2 * products + 4ULL * 8 * 9 * 9);
  const single data = strided_backward_data();
  EXPECT_EQ(work_of(data.g, data.o()).flops, 2 * products);
  const single filter = strided_backward_filter();
  EXPECT_EQ(work_of(filter.g, filter.o()).flops, 2 * products);
  const single fc = operator_over(linear{}, {{4, 6, 2, 2}, {10, 6, 2, 2}, {4, 10, 1, 1}}, 2);
  EXPECT_EQ(work_of(fc.g, fc.o()).flops, 2U * 4 * 24 * 10);
}

TEST(Work, CountsEachOperandOnce) {
  const single s = strided_convolution();
  const work whole = work_of(s.g, s.o());
  EXPECT_EQ(whole.read, 4U * (4 * 3 * 39 * 39 + 8 * 3 * 11 * 11 + 8));
  EXPECT_EQ(whole.written, 4U * 4 * 8 * 9 * 9);
  const single sum = strided_backward_filter();
  const work first = work_of(sum.g, sum.o(), batch_of(0, 1));
  const work second = work_of(sum.g, sum.o(), batch_of(1, 2));
  EXPECT_EQ(second.read - first.read, bytes_of(sum.g.tensors[2]));
  EXPECT_EQ(second.written, bytes_of(sum.g.tensors[2]));
}

TEST(Work, PartsOfAGridAddUpToTheWhole) {
  const single s = strided_convolution();
  std::uint64_t total = 0;
  for (std::uint32_t n = 0; n < 3; ++n) {
    for (std::uint32_t k = 0; k < 5; ++k) {
      for (std::uint32_t c = 0; c < 2; ++c) {
        const box part{part_of(4, n, 3), part_of(8, k, 5), {}, part_of(3, c, 2)};
        total += work_of(s.g, s.o(), part).flops;
      }
    }
  }
  EXPECT_EQ(total, work_of(s.g, s.o()).flops);
}

TEST(Work, RefusesMoreThan64Bits) {
  const std::int64_t many = 1LL << 31;
  const single s = operator_over(linear{}, {{many, many, 1, 1}, {many, many, 1, 1}, {many, many, 1, 1}}, 2);
  EXPECT_THROW(work_of(s.g, s.o()), std::overflow_error);
}

void expect_refused(const single& s, const slice& how, const std::string& reason) {
  expect_words(refusal<std::invalid_argument>([&] { accesses_of(s.g, s.o(), s.part(how)); }), {reason});
}

TEST(Grouped, GoesOverBatchAndRowsAlone) {
  convolution how{1, 1, 1, 1};
  how.groups = 8;
  const dims image{4, 8, 9, 9}, filter{8, 1, 3, 3};
  const single forward = operator_over(how, {image, filter, image}, 2);
  const single data = operator_over(convolution_backward_data{how}, {filter, image, image}, 2);
  const single weights = operator_over(convolution_backward_filter{how}, {image, image, filter}, 2);
  expect_regions(forward.cut(batch_half), {batch_of(2, 4), {}, batch_of(2, 4)});
  expect_regions(forward.cut(row_half), {rows(3, 9), {}, rows(4, 9)});
  expect_regions(data.cut(row_half), {{}, rows(3, 9), rows(4, 9)});
  expect_regions(weights.cut(batch_half), {batch_of(2, 4), batch_of(2, 4), {}});
  for (const single& each : {forward, data, weights}) {
    expect_refused(each, channel_half, "its channels are in groups");
    expect_refused(each, {axis::reduction, 0, 2}, "its channels are in groups");
  }
  EXPECT_EQ(work_of(forward.g, forward.o()).flops, 2U * 4 * 8 * 9 * 9 * 9);
}

TEST(Concat, GoesOverBatchAndRowsAlone) {
  const dims left{4, 3, 6, 6}, right{4, 5, 6, 6}, both{4, 8, 6, 6};
  const single forward = operator_over(concat{}, {left, right, both}, 2);
  const single backward = operator_over(concat_backward{}, {both, left, right}, 1);
  expect_regions(forward.cut(batch_half), {batch_of(2, 4), batch_of(2, 4), batch_of(2, 4)});
  expect_regions(backward.cut(row_half), {rows(3, 6), rows(3, 6), rows(3, 6)});
  for (const single& each : {forward, backward}) {
    expect_refused(each, channel_half, "its operands are joined along it");
    EXPECT_EQ(work_of(each.g, each.o()).flops, 0U);
    EXPECT_EQ(work_of(each.g, each.o()).read, 4U * 4 * 8 * 36);
  }
}

}  // namespace
}  // namespace um
