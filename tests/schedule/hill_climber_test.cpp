#include "schedule/hill_climber.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace um;

// Numbers, each with those one and ten away; `cost` says what they are.
struct numbers {
  std::function<std::optional<int>(int)> cost;
  std::vector<int> asked;
  bool stops = false;

  hill_climber<int, int> within(std::size_t most) {
    return {{[](int at) {
               return std::vector<neighbours<int>>{{"one away", {at - 1, at + 1}},
                                                   {"ten away", {at - 10, at + 10}}};
             },
             [this](std::span<const int> all, const std::string&) -> search_problem<int, int>::costs {
               if (stops) return std::nullopt;
               std::vector<std::optional<int>> costs;
               for (const int x : all) {
                 asked.push_back(x);
                 costs.push_back(cost(x));
               }
               return costs;
             },
             [](const rated<int, int>& from, const rated<int, int>& to) {
               return !from.cost || *to.cost < *from.cost;
             }},
            most};
  }
};

TEST(hill_climber, goes_down_to_where_no_neighbour_is_better) {
  numbers n{[](int x) { return std::abs(x - 42); }, {}};
  EXPECT_EQ(n.within(1000).climb(0), 42);
}

TEST(hill_climber, ends_in_a_hollow_and_leaves_it_only_by_a_kind_that_reaches_further) {
  numbers n{[](int x) { return x == 42 ? 0 : std::abs(x - 50) + 1; }, {}};
  EXPECT_EQ(n.within(1000).climb(3), 50) << "42 is eight away";
  EXPECT_EQ(n.within(1000).climb(31), 42) << "by 32";
}

TEST(hill_climber, rates_nothing_twice_and_no_more_than_it_may) {
  numbers n{[](int x) { return std::abs(x - 42); }, {}};
  hill_climber<int, int> by = n.within(12);
  by.climb(0);
  EXPECT_EQ(n.asked.size(), 12U);
  EXPECT_FALSE(by.may_continue());
  std::ranges::sort(n.asked);
  EXPECT_EQ(std::ranges::adjacent_find(n.asked), n.asked.end());
  EXPECT_EQ(by.rated_points().size(), n.asked.size());
}

TEST(hill_climber, steps_over_what_cannot_be_and_begins_there_if_it_must) {
  numbers n{[](int x) { return x % 10 == 0 && x != 40 ? std::nullopt : std::optional(std::abs(x - 42)); },
            {}};
  EXPECT_EQ(n.within(1000).climb(0), 42);
}

TEST(hill_climber, stops_when_told_so) {
  numbers n{[](int x) { return x; }, {}, true};
  hill_climber<int, int> by = n.within(10);
  EXPECT_EQ(by.climb(5), 5);
  EXPECT_TRUE(by.stopped());
  EXPECT_TRUE(by.rated_points().empty());
}

}  // namespace
