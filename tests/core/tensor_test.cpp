#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace um {
namespace {

TEST(Tensor, CountsElementsAndBytes) {
  EXPECT_EQ(elements({2, 3, 5, 7}), 210);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::f32, role::input}), 840U);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::i32, role::label}), 840U);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::u16, role::activation}), 420U);
  EXPECT_EQ(bytes_of(tensor{"x", {2, 3, 5, 7}, dtype::u8, role::activation}), 210U);
}

TEST(Tensor, RefusesSizesBeyond63Bits) {
  EXPECT_THROW(elements({1LL << 32, 1LL << 31, 1, 1}), std::overflow_error);
  EXPECT_EQ(bytes_of(tensor{"x", {1LL << 30, 1LL << 30, 1, 1}}), 1ULL << 62);
  EXPECT_THROW(bytes_of(tensor{"x", {1LL << 31, 1LL << 30, 1, 1}}), std::overflow_error);
  EXPECT_THROW(bytes_of(tensor{"x", {-1, 1, 1, 1}}), std::invalid_argument);
}

TEST(Tensor, NamesItsParts) {
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
