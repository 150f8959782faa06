#include <gtest/gtest.h>

#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

const std::vector<std::string> known{"alexnet", "vgg16", "vgg19"};

TEST(Suggest, FindsTheNearestName) {
  EXPECT_EQ(nearest_name("alexnett", known), "alexnet");
  EXPECT_EQ(nearest_name("vgg61", known), "vgg16");
  EXPECT_EQ(nearest_name("resnet50", known), "");
  const std::vector<std::string> machines{"h200", "p100-pcie3-16g", "v100-pcie3-16g"};
  EXPECT_EQ(nearest_name("p100", machines), "p100-pcie3-16g") << "one edit away from h200 only by numbers";
  EXPECT_EQ(nearest_name("V100", machines), "v100-pcie3-16g");
  EXPECT_EQ(nearest_name("H20", machines), "h200");
  EXPECT_EQ(nearest_name(std::string(10'000, 'a'), known), "");
  EXPECT_EQ(unknown_name("network", "vg16", known),
            "unknown network \"vg16\"; did you mean vgg16? known: alexnet, vgg16, vgg19");
}

TEST(Suggest, ForeignTextStaysOneLine) {
  EXPECT_EQ(one_line("a\nb\tc\x1b[31m\n"), "a b c [31m");
  EXPECT_EQ(unknown_name("network", "a\nb", known).find('\n'), std::string::npos);
}

TEST(Text, KeepsToItsWidth) {
  EXPECT_EQ(wrap_text("one two three", 2, 9), "one two\n  three");
  EXPECT_EQ(wrap_text("a_word_longer_than_that b", 2, 9), "a_word_longer_than_that\n  b");
  EXPECT_EQ(wrap_text("", 2, 9), "");
  EXPECT_EQ(first_sentence("Nothing measured. Link: 12 GB/s.", 40), "Nothing measured");
  EXPECT_EQ(first_sentence("Worked out by the arithmetic of many", 20), "Worked out by the ...");
}

TEST(Numbers, WholeNumbersKeepTheirLimits) {
  EXPECT_EQ(parse_whole_number("--batch", "64", 1, 100), 64);
  EXPECT_EQ(parse_whole_number("--knob", "-3", -5, 5), -3);
  for (const char* bad : {"", " 1", "1 ", "+1", "0", "101", "-1", "1.0", "1e1", "0x10", "abc",
                          "9223372036854775808", "99999999999999999999999999"}) {
    EXPECT_THROW(parse_whole_number("--batch", bad, 1, 100), input_error) << bad;
  }
}

TEST(Numbers, RatiosAreNumbers) {
  EXPECT_EQ(parse_real_number("--ratio", "1.5", 0.1, 64), 1.5);
  for (const char* bad : {"", "nan", "inf", "-1", "0", "0.09", "64.1", "1,5", "1.5x", "1e999"}) {
    EXPECT_THROW(parse_real_number("--ratio", bad, 0.1, 64), input_error) << bad;
  }
}

TEST(Numbers, SizesAreFromOneByteTo2To63) {
  EXPECT_EQ(parse_size("--budget", "1.5GiB"), 3 * GiB / 2);
  EXPECT_EQ(parse_size("--budget", "9223372036854775807"), (byte_count{1} << 63) - 1);
  for (const char* bad :
       {"", "0", "-1", "-1GiB", "16777216TiB", "9223372036854775808", "8388608TiB", "9e99", "GiB", "1XB"}) {
    EXPECT_THROW(parse_size("--budget", bad), input_error) << bad;
  }
}

TEST(Numbers, AssignmentsAreNameAndNumber) {
  EXPECT_EQ(parse_assignment("--set", "insize=448").second, 448);
  for (const char* bad : {"", "insize", "=4", "insize=", "insize=a", "insize=9223372036854775808"}) {
    EXPECT_THROW(parse_assignment("--set", bad), input_error) << bad;
  }
}

}  // namespace
}  // namespace um
