#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace um {
namespace {

TEST(Tensor, CountsElementsAndBytes) {
  EXPECT_EQ(element_count({2, 3, 5, 7}), 210);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::f32, role::input}), 840U);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::i32, role::label}), 840U);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::u16, role::activation}), 420U);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::u8, role::activation}), 210U);
}

TEST(Tensor, RefusesSizesBeyond63Bits) {
  EXPECT_THROW(element_count({1LL << 32, 1LL << 31, 1, 1}), std::overflow_error);
  EXPECT_EQ(bytes_of(tensor{"x", {1LL << 30, 1LL << 30, 1, 1}}), 1ULL << 62);
  EXPECT_THROW(bytes_of(tensor{"x", {1LL << 31, 1LL << 30, 1, 1}}), std::overflow_error);
  EXPECT_THROW(bytes_of(tensor{"x", {-1, 1, 1, 1}}), std::invalid_argument);
}

TEST(Tensor, Bf16TakesTwoBytes) {
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::bf16, role::activation}), 420U);
  EXPECT_TRUE(is_floating(dtype::bf16));
  EXPECT_TRUE(is_floating(dtype::f32));
  EXPECT_FALSE(is_floating(dtype::u16));
}

TEST(Tensor, StridesFollowTheOrder) {
  const dims shape{2, 3, 5, 7};
  EXPECT_EQ(strides_of(tensor{"x", shape, dtype::f32, role::input, memory_order::nchw}),
            (dims{105, 35, 7, 1}));
  EXPECT_EQ(strides_of(tensor{"x", shape, dtype::f32, role::input, memory_order::nhwc}),
            (dims{105, 1, 21, 3}));
}

// Position and logical index against the strides, element by element.
TEST(Tensor, LogicalIndexUndoesTheOrder) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const tensor t{"x", {2, 3, 5, 7}, dtype::f32, role::input, order};
    const dims s = strides_of(t);
    std::int64_t index = 0;
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t h = 0; h < 5; ++h) {
          for (std::int64_t w = 0; w < 7; ++w) {
            EXPECT_EQ(logical_index(t, n * s.n + c * s.c + h * s.h + w * s.w), index++);
          }
        }
      }
    }
  }
}

TEST(Tensor, NamesItsParts) {
  EXPECT_EQ(to_text(dtype::bf16), "bf16");
  EXPECT_EQ(to_text(memory_order::nchw), "nchw");
  EXPECT_EQ(to_text(memory_order::nhwc), "nhwc");
  EXPECT_EQ(to_text(dims{64, 3, 11, 11}), "64x3x11x11");
  EXPECT_EQ(to_text(dtype::u16), "u16");
  EXPECT_EQ(to_text(role::parameter_gradient), "parameter_gradient");
}

TEST(Role, TellsWhatOutlivesAnIteration) {
  EXPECT_TRUE(persists(role::parameter));
  EXPECT_FALSE(persists(role::parameter_gradient));
  EXPECT_TRUE(survives(role::parameter_gradient));
  EXPECT_TRUE(survives(role::output));
  EXPECT_FALSE(survives(role::activation));
  EXPECT_FALSE(survives(role::activation_gradient));
}

}  // namespace
}  // namespace um
