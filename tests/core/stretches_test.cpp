#include "core/stretches.hpp"

#include <gtest/gtest.h>

#include <random>

namespace um {
namespace {

step in(lane where, last_steps after = no_steps) {
  step s;
  s.in_lane = where;
  s.waits_for = after;
  return s;
}

using pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

pairs stretches_of(const std::vector<step>& steps) {
  pairs all;
  for (const index_range& s : launch_order_of(steps).stretches) all.emplace_back(s.first, s.last);
  return all;
}

constexpr std::size_t out = static_cast<std::size_t>(lane::to_host);

TEST(stretches, are_one_where_nothing_is_copied) {
  EXPECT_EQ(stretches_of({in(lane::compute), in(lane::compute), in(lane::compute)}), (pairs{{0, 2}}));
  EXPECT_EQ(stretches_of({}), pairs{});
}

TEST(stretches, end_where_a_copy_waits_and_begin_where_one_is_waited_for) {
  last_steps behind_1 = no_steps, behind_2 = no_steps;
  behind_1[static_cast<std::size_t>(lane::compute)] = 1;
  behind_2[out] = 2;
  const std::vector<step> steps{in(lane::compute), in(lane::compute),           in(lane::to_host, behind_1),
                                in(lane::compute), in(lane::compute, behind_2), in(lane::compute)};
  EXPECT_EQ(stretches_of(steps), (pairs{{0, 1}, {3, 3}, {4, 5}}));
  const launch_order order = launch_order_of(steps);
  EXPECT_EQ(order.is_awaited, (std::vector<bool>{false, true, true, false, false, false}));
}

// Who waited for a step needs not wait for it again, nor for one before it.
TEST(stretches, go_on_where_what_is_waited_for_is_known_to_have_ended) {
  last_steps first = no_steps, second = no_steps;
  first[out] = 0;
  second[out] = 1;
  const std::vector<step> steps{in(lane::to_host), in(lane::to_host), in(lane::compute, second),
                                in(lane::compute, first), in(lane::compute, second)};
  EXPECT_EQ(stretches_of(steps), (pairs{{2, 4}}));
  EXPECT_EQ(launch_order_of(steps).is_awaited, (std::vector<bool>{false, true, false, false, false}));
}

TEST(stretches, keep_every_wait_of_random_steps) {
  std::minstd_rand engine(1);
  const auto dice = [&] { return static_cast<std::uint32_t>(engine()); };
  for (int round = 0; round < 200; ++round) {
    std::vector<step> steps;
    const std::uint32_t count = 1 + dice() % 40;
    for (std::uint32_t i = 0; i < count; ++i) {
      step s = in(static_cast<lane>(dice() % lane_count));
      for (std::uint32_t tries = dice() % 3; i > 0 && tries > 0; --tries) {
        const std::uint32_t other = dice() % i;
        if (steps[other].in_lane != s.in_lane)
          s.waits_for[static_cast<std::size_t>(steps[other].in_lane)] = static_cast<std::int32_t>(other);
      }
      steps.push_back(s);
    }
    const launch_order order = launch_order_of(steps);
    std::vector<std::uint32_t> launched;  // steps of the compute lane
    std::size_t within = 0;
    for (const index_range& s : order.stretches) {
      for (std::uint32_t i = s.first; i <= s.last; ++i) {
        if (steps[i].in_lane != lane::compute) continue;
        launched.push_back(i);
        EXPECT_TRUE(i == s.first || order.waits_for[i] == no_steps) << "waits within a stretch";
        EXPECT_TRUE(i == s.last || !order.is_awaited[i]) << "is waited for within a stretch";
        if (i != s.first) ++within;
      }
    }
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (steps[i].in_lane == lane::compute) wanted.push_back(i);
      for (std::size_t other = 0; other < lane_count; ++other) {
        std::int32_t ended = no_step;  // when step i begins
        for (std::uint32_t before = 0; before <= i; ++before) {
          if (steps[before].in_lane == steps[i].in_lane)
            ended = std::max(ended, order.waits_for[before][other]);
        }
        EXPECT_GE(ended, steps[i].waits_for[other]) << "step " << i << " of round " << round;
        if (order.waits_for[i][other] != no_step) {
          EXPECT_EQ(order.waits_for[i][other], steps[i].waits_for[other]);
          EXPECT_TRUE(order.is_awaited[static_cast<std::size_t>(order.waits_for[i][other])]);
        }
      }
    }
    EXPECT_EQ(launched, wanted);
    EXPECT_EQ(within + order.stretches.size(), wanted.size());
  }
}

}  // namespace
}  // namespace um
