#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "core/units.hpp"

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

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

TEST(CheckedArithmetic, GivesNothingBeyond64Bits) {
  EXPECT_EQ(checked_multiply(1ULL << 32, 1ULL << 31), 1ULL << 63);
  EXPECT_FALSE(checked_multiply(1ULL << 32, 1ULL << 32));
  EXPECT_EQ(checked_multiply(most, 0), 0U);
  EXPECT_EQ(checked_add(most, 0), most);
  EXPECT_FALSE(checked_add(most, 1));
}

TEST(TimeAt, RoundsUp) {
  EXPECT_EQ(time_at(0, 7), 0);
  EXPECT_EQ(time_at(1, 1'000'000'000), 1);
  EXPECT_EQ(time_at(1, 3'000'000'000), 1);
  EXPECT_EQ(time_at(4, 3'000'000'000), 2);
  EXPECT_EQ(time_at(55'000'000'000, 55'000'000'000), 1'000'000'000);
}

TEST(TimeAt, HasNoOverflowInBetween) {
  // 2^60 bytes at 2^40 bytes a second: 2^20 seconds, while 2^60 * 10^9 needs 90 bits.
  EXPECT_EQ(time_at(1ULL << 60, 1ULL << 40), (1LL << 20) * 1'000'000'000);
}

TEST(TimeAt, RefusesWhatHasNoAnswer) {
  EXPECT_THROW(time_at(1, 0), std::invalid_argument);
  EXPECT_THROW(time_at(most, 1), std::overflow_error);
}

TEST(ParseBytes, KnowsBothKindsOfSuffix) {
  EXPECT_EQ(parse_bytes("1048576"), MiB);
  EXPECT_EQ(parse_bytes("12B"), 12U);
  EXPECT_EQ(parse_bytes("4GiB"), 4 * GiB);
  EXPECT_EQ(parse_bytes("512 MB"), 512'000'000U);
  EXPECT_EQ(parse_bytes("3kB"), 3'000U);
  EXPECT_EQ(parse_bytes("3KiB"), 3'072U);
  EXPECT_EQ(parse_bytes("2TB"), 2'000'000'000'000U);
  EXPECT_EQ(parse_bytes("2TiB"), 2048 * GiB);
  EXPECT_EQ(parse_bytes("0"), 0U);
}

TEST(ParseBytes, ReadsFractionsExactly) {
  EXPECT_EQ(parse_bytes("1.5GiB"), 3 * GiB / 2);
  EXPECT_EQ(parse_bytes("0.1kB"), 100U);
  EXPECT_EQ(parse_bytes("1.0009765625 KiB"), 1025U);
  EXPECT_EQ(parse_bytes("0.9999999999999999999999999kB"), 999U);
}

TEST(ParseBytes, GivesNothingForWhatIsNoSize) {
  for (const char* text :
       {"",   " ",   "GiB",   "-1",    "-4GiB",    "+4GiB", "4gib", "4 G", "4GiB ", " 4GiB",
        "4 ", "1.5", "1.GiB", ".5GiB", "1.5.5GiB", "1e9",   "0x10", "nan", "4GiBs", "1.5B"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(ParseBytes, GivesNothingBeyond64Bits) {
  EXPECT_EQ(parse_bytes("18446744073709551615"), most);
  EXPECT_FALSE(parse_bytes("18446744073709551616"));
  EXPECT_FALSE(parse_bytes("99999999999999999999999"));
  EXPECT_EQ(parse_bytes("16777215TiB"), 16777215ULL << 40);
  EXPECT_FALSE(parse_bytes("16777216TiB"));
}

TEST(BytesAsText, HasThreeDigits) {
  EXPECT_EQ(to_text(byte_count{0}), "0 B");
  EXPECT_EQ(to_text(byte_count{999}), "999 B");
  EXPECT_EQ(to_text(byte_count{1000}), "0.977 KiB");
  EXPECT_EQ(to_text(KiB), "1.00 KiB");
  EXPECT_EQ(to_text(621 * GiB / 100), "6.21 GiB");
  EXPECT_EQ(to_text(byte_count{15'077'888} * 4 * 1024), "57.5 GiB");
  EXPECT_EQ(to_text(999 * MiB), "999 MiB");
  EXPECT_EQ(to_text(1000 * MiB), "0.977 GiB");
  EXPECT_EQ(to_text(most), "16.0 EiB");
}

TEST(Rounding, GoesToMultiples) {
  EXPECT_EQ(round_up(0, 256), 0U);
  EXPECT_EQ(round_up(1, 256), 256U);
  EXPECT_EQ(round_up(256, 256), 256U);
  EXPECT_EQ(round_down(511, 256), 256U);
}

}  // namespace
}  // namespace um
