// Initial values and the digest need no GPU.
#include "backends/initial_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>

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

std::vector<float> floats_of(const graph& g, tensor_id t) {
  const std::vector<std::byte> bytes = initial_values(g, t);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
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

TEST(initial_values, refuse_types_without_any) {
  EXPECT_THROW(initial_values(classifier(), 7), std::invalid_argument);
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
