#include "core/units.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace um {
namespace {

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
