#include "schedule/calendar.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

using um::calendar;
using um::nanoseconds;

TEST(calendar, takes_what_is_free_in_pieces) {
  calendar c;
  EXPECT_EQ(c.book_earliest(10, 10), 10);
  EXPECT_EQ(c.book_earliest(30, 10), 30);
  EXPECT_EQ(c.book_earliest(0, 25), 0) << "10 before the first, 10 between, 5 behind the second";
  EXPECT_EQ(c.book_earliest(0, 1), 45);
  EXPECT_EQ(c.book_earliest(100, 5), 100);
  EXPECT_EQ(c.book_earliest(101, 5), 105) << "not before what it begins within has ended";
}

TEST(calendar, nothing_takes_no_time) {
  calendar c;
  EXPECT_EQ(c.book_earliest(10, 0), 10);
  EXPECT_EQ(c.book_earliest(10, 5), 10);
  EXPECT_EQ(c.book_earliest(10, 0), 15);
}

// Against one that notes every nanosecond.
TEST(calendar, agrees_with_a_list_of_instants) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    calendar c;
    std::vector<bool> taken(4000, false);
    for (int i = 0; i < 40; ++i) {
      const auto at = static_cast<std::size_t>(random() % 400);
      const auto length = static_cast<std::size_t>(1 + random() % 9);
      std::size_t begin = at;
      while (taken[begin]) ++begin;
      ASSERT_EQ(c.book_earliest(static_cast<nanoseconds>(at), static_cast<nanoseconds>(length)),
                static_cast<nanoseconds>(begin));
      for (std::size_t t = begin, left = length; left > 0; ++t) {
        left -= taken[t] ? 0 : 1;
        taken[t] = true;
      }
    }
  }
}

}  // namespace
