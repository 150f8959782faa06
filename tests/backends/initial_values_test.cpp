// Initial values and the digest need no GPU.
#include "backends/initial_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "backends/bf16.hpp"
#include "backends/digest.hpp"

namespace um {
namespace {

graph classifier() {
  graph g;
  g.tensors = {{"x", {4, 30, 1, 1}, dtype::f32, role::input},
               {"w", {7, 30, 1, 1}, dtype::f32, role::parameter},
               {"b", {1, 7, 1, 1}, dtype::f32, role::parameter},
               {"logits", {4, 7, 1, 1}, dtype::f32, role::activation},
               {"labels", {4, 1, 1, 1}, dtype::i32, role::label},
               {"loss", {1, 1, 1, 1}, dtype::f32, role::output},
               {"p", {4, 7, 1, 1}, dtype::f32, role::activation},
               {"index", {4, 7, 1, 1}, dtype::u8, role::input}};
  g.ops = {{"fc", linear{}, {0, 1, 2}, {3}, true, {}},
           {"loss", softmax_cross_entropy{}, {3, 4}, {5, 6}, true, {}}};
  return g;
}

// A tensor that is read by one operator, as its operand number `operand`.
graph reader(const op_attributes& what, std::size_t operand, const tensor& read) {
  graph g;
  op o{"reader", what, {}, {}, true, {}};
  for (std::size_t i = 0; i <= operand; ++i) {
    o.in.push_back(static_cast<tensor_id>(i));
    g.tensors.push_back({"other" + std::to_string(i), {2, 3, 1, 1}, dtype::f32, role::activation});
  }
  g.tensors.back() = read;
  g.ops = {o};
  return g;
}

template <class Value>
std::vector<Value> values_of(const graph& g, tensor_id t) {
  const std::vector<std::byte> bytes = initial_values(g, t);
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> floats_of(const graph& g, tensor_id t) {
  return values_of<float>(g, t);
}

TEST(initial_values, are_the_same_in_pieces) {
  const graph g = classifier();
  const std::vector<std::byte> whole = initial_values(g, 1);
  std::vector<std::byte> pieces(whole.size());
  const std::size_t first = 52 * sizeof(float);
  write_initial_values(g, 1, 0, std::span(pieces).first(first));
  write_initial_values(g, 1, 52, std::span(pieces).subspan(first));
  EXPECT_EQ(whole, pieces);
}

TEST(initial_values, fill_the_range_of_he_and_differ_by_name) {
  const graph g = classifier();
  const float limit = std::sqrt(6.0F / 30.0F);
  float most = 0, sum = 0;
  const std::vector<float> w = floats_of(g, 1);
  for (const float v : w) {
    most = std::max(most, std::abs(v));
    sum += v;
  }
  EXPECT_LE(most, limit);
  EXPECT_GT(most, 0.9F * limit);
  EXPECT_LT(std::abs(sum / static_cast<float>(w.size())), 0.2F * limit);
  for (const float v : floats_of(g, 2)) EXPECT_LE(std::abs(v), 0.1F);
  EXPECT_NE(floats_of(g, 0).front(), floats_of(g, 1).front() / limit);
}

TEST(initial_values, label_with_classes_of_the_loss) {
  const std::vector<std::byte> bytes = initial_values(classifier(), 4);
  for (std::size_t i = 0; i < 4; ++i) {
    std::int32_t label = -1;
    std::memcpy(&label, bytes.data() + 4 * i, 4);
    EXPECT_GE(label, 0);
    EXPECT_LT(label, 7);
  }
}

TEST(initial_values, label_for_the_loss_that_gives_its_gradient) {
  graph g = classifier();
  g.ops.back().attributes = softmax_cross_entropy_gradient{};
  EXPECT_EQ(initial_values(g, 4), initial_values(classifier(), 4));
}

TEST(initial_values, follow_the_logical_index_in_every_order) {
  graph rows, channels;
  rows.tensors = {{"x", {3, 5, 4, 7}, dtype::f32, role::input, memory_order::nchw}};
  channels.tensors = {{"x", {3, 5, 4, 7}, dtype::f32, role::input, memory_order::nhwc}};
  const std::vector<float> expected = floats_of(rows, 0), out = floats_of(channels, 0);
  EXPECT_NE(expected, out);
  for (std::int64_t at = 0; at < element_count(rows.tensors[0].shape); ++at) {
    const std::int64_t logical = logical_index(channels.tensors[0], at);
    ASSERT_EQ(out[static_cast<std::size_t>(at)], expected[static_cast<std::size_t>(logical)]) << at;
  }
}

TEST(initial_values, of_many_elements_are_the_same_in_pieces) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    graph g;  // enough for several threads, and no multiple of anything
    g.tensors = {{"x", {3, 67, 101, 103}, dtype::f32, role::input, order}};
    const std::vector<std::byte> whole = initial_values(g, 0);
    std::vector<std::byte> pieces(whole.size());
    constexpr std::size_t piece = 123'457;
    for (std::size_t at = 0; at < pieces.size() / sizeof(float); at += piece) {
      const std::size_t count = std::min(piece, pieces.size() / sizeof(float) - at);
      const auto to = std::span(pieces).subspan(at * sizeof(float), count * sizeof(float));
      write_initial_values(g, 0, static_cast<std::int64_t>(at), to);
    }
    EXPECT_TRUE(whole == pieces) << to_text(order);
  }
}

TEST(initial_values, of_bf16_are_those_of_f32_rounded) {
  graph wide, narrow;
  wide.tensors = {{"x", {9, 11, 13, 5}, dtype::f32, role::input}};
  narrow.tensors = {{"x", {9, 11, 13, 5}, dtype::bf16, role::input}};
  const std::vector<float> expected = floats_of(wide, 0);
  const auto out = values_of<std::uint16_t>(narrow, 0);
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], to_bf16(expected[i]));
    EXPECT_LE(std::abs(from_bf16(out[i]) - expected[i]), std::abs(expected[i]) / 256);
  }
}

TEST(bf16, rounds_to_nearest_and_ties_to_even) {
  const auto rounded = [](float v) { return from_bf16(to_bf16(v)); };
  EXPECT_EQ(rounded(1.0F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 1.0F / 256), 1.0F);               // a tie, 1 is even
  EXPECT_EQ(rounded(1.0F + 3.0F / 256), 1.0F + 4.0F / 256);  // a tie, upwards
  EXPECT_EQ(rounded(1.0F + 1.01F / 256), 1.0F + 2.0F / 256);
  EXPECT_EQ(rounded(-1.0F - 0.99F / 256), -1.0F);
  EXPECT_EQ(rounded(0.0F), 0.0F);
}

TEST(initial_values, of_normalisations_are_told_apart_by_their_reader) {
  const tensor v{"v", {1, 500, 1, 1}, dtype::f32, role::parameter};
  const auto range = [&](const op_attributes& what, std::size_t operand) {
    const std::vector<float> values = floats_of(reader(what, operand, v), static_cast<tensor_id>(operand));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return std::pair(*least, *most);
  };
  const auto expect_near_one = [](std::pair<float, float> r) {
    EXPECT_GE(r.first, 0.875F);
    EXPECT_LT(r.first, 0.9F);
    EXPECT_GT(r.second, 1.1F);
    EXPECT_LE(r.second, 1.125F);
  };
  const auto expect_small = [](std::pair<float, float> r) {
    EXPECT_GE(r.first, -0.1F);
    EXPECT_LT(r.first, -0.08F);
    EXPECT_GT(r.second, 0.08F);
    EXPECT_LE(r.second, 0.1F);
  };
  expect_near_one(range(batch_norm{}, 1));
  expect_small(range(batch_norm{}, 2));
  expect_near_one(range(normalize{}, 1));
  expect_small(range(normalize{}, 2));
  expect_small(range(normalize{}, 3));
  expect_near_one(range(normalize{}, 4));
  expect_small(range(convolution{}, 2));
  expect_small(range(linear{}, 2));
  expect_small(range(max_pool{}, 1));
}

// The master of a parameter in bf16 begins with the parameter's values before they are rounded.
TEST(initial_values, of_masters_are_those_of_their_parameters) {
  graph g;
  g.tensors = {{"w", {8, 4, 1, 1}, dtype::bf16, role::parameter},
               {"dw", {8, 4, 1, 1}, dtype::f32, role::input},
               {"w.master", {8, 4, 1, 1}, dtype::f32, role::state}};
  g.ops = {{"step", optimizer_step{}, {0, 1, 2}, {0, 2}, false, {}}};
  ASSERT_EQ(defect_of(g), std::nullopt);
  const auto rounded = values_of<std::uint16_t>(g, 0);
  const std::vector<float> master = floats_of(g, 2);
  ASSERT_EQ(master.size(), 32U);
  for (std::size_t i = 0; i < master.size(); ++i) EXPECT_EQ(to_bf16(master[i]), rounded[i]);
  EXPECT_TRUE(std::ranges::any_of(master, [](float v) { return from_bf16(to_bf16(v)) != v; }));
}

TEST(initial_values, of_masks_and_counters_are_zeros) {
  const graph g = classifier();
  const std::vector<std::byte> bytes = initial_values(g, 7);
  EXPECT_EQ(bytes, std::vector<std::byte>(bytes_of(g.tensors[7])));
  EXPECT_FALSE(bytes.empty());
}

std::uint64_t digest_of(const std::vector<std::byte>& bytes) {
  digest d;
  d.add(bytes);
  return d.value();
}

TEST(digests, tell_every_bit_and_length_apart) {
  std::vector<std::byte> bytes(37, std::byte{0});
  const std::uint64_t original = digest_of(bytes);
  EXPECT_EQ(original, digest_of(bytes));
  for (std::byte& b : bytes) {
    b = std::byte{1};
    EXPECT_NE(original, digest_of(bytes));
    b = std::byte{0};
  }
  bytes.pop_back();
  EXPECT_NE(original, digest_of(bytes));
}

TEST(digests, depend_on_order) {
  std::vector<std::byte> bytes(16, std::byte{0});
  bytes[0] = std::byte{1};
  const std::uint64_t front = digest_of(bytes);
  bytes[0] = std::byte{0};
  bytes[8] = std::byte{1};
  EXPECT_NE(front, digest_of(bytes));
}

}  // namespace
}  // namespace um
