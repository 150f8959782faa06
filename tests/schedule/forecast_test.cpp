// What a forecast says, against the plan lowered and simulated.
#include "schedule/forecast.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/lower.hpp"
#include "simulator/simulate.hpp"
#include "tests/schedule/random_decisions.hpp"

namespace {

using namespace um;
using namespace um::testing;

constexpr byte_count no_limit = std::numeric_limits<byte_count>::max();

struct held {
  prediction said;
  byte_count live = 0, arena = 0;
  nanoseconds time = 0;
};

held hold(const problem& p, const use_table& uses, const std::vector<gap>& gaps,
          const std::vector<decision>& decisions) {
  held h;
  forecaster f(p, uses);
  h.said =
      f.forecast(build_events(p.network, uses, gaps, decisions), find_staged_tensors(uses, gaps, decisions));
  const memory_plan plan = make_plan(p.network, uses, gaps, decisions);
  h.live = std::ranges::max(live_bytes(p, plan));
  const execution_plan steps = lower(p, plan);
  h.arena = steps.device_arena_bytes;
  h.time =
      simulate({p.network, steps, p.target, p.operator_costs, p.cost_of_slice}, 1, false).front().duration;
  return h;
}

using forecasts = on_small_network;

TEST_P(forecasts, say_what_random_decisions_hold_and_take) {
  std::mt19937 dice(3);
  double worst = 0;
  for (const loop_nest& l : loops_for(g)) {
    const use_table uses = make_use_table(g, make_order(g, l));
    const std::vector<gap> gaps = find_gaps(g, uses);
    for (const unsigned rarity : {3U, 8U, 32U}) {
      const held h = hold(p, uses, gaps, random_decisions(gaps, dice, rarity));
      // Parts that some operator touches together lie together, so a plan may hold more than its parts.
      const bool apart = l.deferred.empty() && l.inner_loops.empty();
      const byte_count rounding = arena_alignment * uses.parts.size() + bytes_of(g, role::output);
      EXPECT_LE(h.said.peak, h.live + rounding);
      EXPECT_GE(h.said.peak + rounding, apart ? h.live : 0);
      const double off = std::abs(static_cast<double>(h.said.time) / static_cast<double>(h.time) - 1);
      worst = std::max(worst, off);
      EXPECT_LT(off, 0.15) << l.micro_batches << " micro-batches, one in " << rarity << ": said "
                           << h.said.time << ", takes " << h.time;
    }
  }
  RecordProperty("worst_percent", std::to_string(100 * worst));
}

// Without costs of parts a normalisation takes less when it is computed again.
TEST_P(forecasts, know_what_takes_less_the_second_time) {
  p.cost_of_slice = {};
  std::mt19937 dice(5);
  const use_table uses = make_use_table(g, graph_order(g));
  const std::vector<gap> gaps = find_gaps(g, uses);
  const forecaster f(p, uses);
  for (position at = 0; at < uses.end(); ++at) {
    const bool normalises = has_kind<batch_norm>(g.ops[static_cast<std::size_t>(at)]);
    EXPECT_EQ(f.recompute_time(at) < f.compute_time(at), normalises)
        << g.ops[static_cast<std::size_t>(at)].name;
  }
  for (const unsigned rarity : {2U, 8U}) {
    std::vector<decision> decisions = random_decisions(gaps, dice, rarity);
    for (decision& d : decisions) {
      if (d.choice == gap_choice::swap) d = {};
    }
    const held h = hold(p, uses, gaps, decisions);
    EXPECT_EQ(h.said.time, h.time) << "nothing waits";
  }
}

INSTANTIATE_TEST_SUITE_P(catalogue, forecasts, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

}  // namespace
