// Sets and histories of positions, against those of the standard library.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "schedule/decisions.hpp"
#include "schedule/position_set.hpp"

namespace {

using namespace um;

TEST(position_set, takes_out_what_a_sorted_set_has_first) {
  constexpr position end = 10'000;
  std::mt19937 dice(1);
  position_set positions(end);
  std::set<position> expected;
  for (int round = 0; round < 300; ++round) {
    for (auto left = dice() % 100; left > 0; --left) {
      const auto at = static_cast<position>(dice() % static_cast<unsigned>(end));
      positions.add(at);
      expected.insert(at);
    }
    for (auto left = dice() % 120; left > 0; --left) {
      ASSERT_EQ(positions.take_first(), expected.empty() ? -1 : *expected.begin()) << round;
      if (!expected.empty()) expected.erase(expected.begin());
    }
  }
}

TEST(state_history, knows_the_states_that_a_map_of_changes_gives) {
  constexpr position end = 30;
  std::mt19937 dice(2);
  state_history history;
  std::size_t most = 0;
  for (int round = 0; round < 20; ++round) {
    std::map<position, part_state> expected{{-1, static_cast<part_state>(dice() % 8)}};
    const auto state_after = [&](position at) { return std::prev(expected.upper_bound(at))->second; };
    history.reset(expected.at(-1));
    for (unsigned draw = 0; draw < 400; ++draw) {
      const auto at = static_cast<position>(dice() % static_cast<unsigned>(end));
      const part_state before = state_after(at - 1);
      // Changes are added for a while, then taken out.
      const bool stays = dice() % 8 < (draw / 100 % 2 == 0 ? 1U : 6U);
      const part_state after = stays ? before : static_cast<part_state>(dice() % 8);
      history.record_change(at, before, after);
      if (before == after) {
        expected.erase(at);
      } else {
        expected[at] = after;
      }
      most = std::max(most, expected.size());
      for (position i = -1; i < end; ++i) ASSERT_EQ(history.state_after(i), state_after(i)) << draw;
    }
  }
  EXPECT_GT(most, 16U);
}

}  // namespace
