// What a forecast says, against the plan lowered and simulated.
#include "schedule/forecast.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/lower.hpp"
#include "schedule/calendar.hpp"
#include "schedule/change_evaluator.hpp"
#include "schedule/fit_transfers.hpp"
#include "schedule/minimum_fit.hpp"
#include "simulator/simulate.hpp"
#include "tests/schedule/random_decisions.hpp"

namespace um {
namespace {

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

using forecasts_without_sharing = on_small_network;

// A tensor that is not staged takes its memory before its first use and after its last one, too.
TEST_P(forecasts_without_sharing, count_all_memory) {
  std::mt19937 dice(3);
  for (const loop_nest& l : loops_for(g)) {
    const use_table uses = make_use_table(g, make_order(g, l));
    const std::vector<gap> gaps = find_gaps(g, uses);
    for (const unsigned rarity : {3U, 8U, 1000U}) {
      const std::vector<decision> decisions = random_decisions(gaps, dice, rarity);
      const held h = hold(p, uses, gaps, decisions);
      const auto off = static_cast<double>(h.said.peak) / static_cast<double>(h.live) - 1;
      EXPECT_LT(std::abs(off), 0.01) << l.micro_batches << " micro-batches, one in " << rarity;
    }
  }
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
INSTANTIATE_TEST_SUITE_P(framework, forecasts_without_sharing, ::testing::Values("vgg11_framework"));

// What a change of decisions does, against the whole list of events and its forecast.

constexpr byte_count unlimited = std::numeric_limits<byte_count>::max();

list_totals whole_list(event_builder& events, forecaster& costs, const use_table& uses,
                       const std::vector<decision>& decisions, const std::vector<bool>& staged_tensors,
                       byte_count budget, std::vector<event>& all) {
  const std::span<const event> made = events.build(decisions, staged_tensors);
  all.assign(made.begin(), made.end());
  list_totals f;
  f.peak = costs.forecast_memory(all, staged_tensors).peak;
  f.event_count = static_cast<std::int64_t>(all.size());
  for (const byte_count live : costs.live_bytes()) f.excess += live > budget ? live - budget : 0;
  for (const event& e : all) {
    if (e.kind == event_kind::compute) {
      f.compute_time += costs.compute_time(e);
      if (e.is_recompute) f.recompute_time += costs.compute_time(e);
    } else if (e.kind != event_kind::discard) {
      ++f.transfer_count;
      if (e.kind != event_kind::prefetch) continue;
      ++f.fetch_count;
      f.fetched_bytes += uses.parts[e.subject].bytes;
    }
  }
  return f;
}

using changed_lists = on_small_network;

// A few decisions at a time, kept or not.
TEST_P(changed_lists, are_as_if_made_anew) {
  std::mt19937 dice(5);
  for (const loop_nest& l : loops_for(g)) {
    const use_table uses = make_use_table(g, make_order(g, l));
    const std::vector<gap> gaps = find_gaps(g, uses);
    if (gaps.empty()) continue;
    event_builder builder(g, uses, gaps), whole(g, uses, gaps);
    forecaster block_costs(p, uses), whole_costs(p, uses);
    change_evaluator list(uses, gaps, builder, block_costs);
    std::vector<decision> now = random_decisions(gaps, dice, 8);
    std::vector<event> all;
    const list_totals first =
        whole_list(whole, whole_costs, uses, now, find_staged_tensors(uses, gaps, now), unlimited, all);
    const byte_count budget = first.peak / 10 * 9;
    list.rebuild(now, find_staged_tensors(uses, gaps, now), budget);
    ASSERT_EQ(list.list().totals().peak, first.peak);
    for (int i = 0; i < 150; ++i) {
      const std::vector<decision> others = random_decisions(gaps, dice, 2);
      std::vector<decision> next = now;
      std::vector<std::uint32_t> changed;
      for (std::size_t k = 1 + dice() % 4; k > 0; --k) {
        const auto x = static_cast<std::uint32_t>(dice() % gaps.size());
        if (next[x] == others[x]) continue;
        next[x] = others[x];
        changed.push_back(x);
      }
      const std::vector<bool> staged_tensors = find_staged_tensors(uses, gaps, next);
      const list_totals said = list.evaluate(next, staged_tensors, changed, budget);
      const list_totals is = whole_list(whole, whole_costs, uses, next, staged_tensors, budget, all);
      const std::span<const event> events = list.new_events();
      ASSERT_TRUE(std::ranges::equal(events, all)) << "change " << i;
      ASSERT_TRUE(std::ranges::equal(list.new_live_at_positions(),
                                     live_at_positions(uses, all, whole_costs.live_bytes())))
          << "change " << i;
      ASSERT_EQ(said.peak, is.peak) << "change " << i;
      ASSERT_EQ(said.excess, is.excess) << "change " << i;
      ASSERT_EQ(said.compute_time, is.compute_time);
      ASSERT_EQ(said.recompute_time, is.recompute_time);
      ASSERT_EQ(said.fetched_bytes, is.fetched_bytes);
      ASSERT_EQ(said.fetch_count, is.fetch_count);
      ASSERT_EQ(said.transfer_count, is.transfer_count);
      ASSERT_EQ(said.event_count, is.event_count);
      if (dice() % 2 == 0) continue;
      list.accept();
      now = next;
    }
  }
}

TEST_P(changed_lists, need_at_least_what_fitting_into_no_room_needs) {
  std::mt19937 dice(9);
  for (const loop_nest& l : loops_for(g)) {
    const use_table uses = make_use_table(g, make_order(g, l));
    const std::vector<gap> gaps = find_gaps(g, uses);
    forecaster own_costs(p, uses), whole_costs(p, uses);
    decisions_minimum_finder fitter(g, uses, gaps, own_costs);
    std::vector<decision> now = random_decisions(gaps, dice, 2);
    for (int i = 0; i < 40 && !gaps.empty(); ++i) {
      const std::vector<decision> others = random_decisions(gaps, dice, 2);
      const std::size_t changed = dice() % gaps.size();
      now[changed] = others[changed];
      if (i % 10 == 5) now = others;
      std::vector<decision> fitted = now;
      const fit_result expected = fit_transfers(g, uses, gaps, whole_costs, 0, fitted);
      const decisions_minimum need = fitter.minimum_for(now);
      EXPECT_EQ(need.peak, expected.peak);
      EXPECT_EQ(need.recompute_time, expected.recompute_time);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(catalogue, changed_lists, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });
INSTANTIATE_TEST_SUITE_P(framework, changed_lists, ::testing::Values("vgg11_framework"));

using um::calendar;
using um::nanoseconds;

TEST(calendar, takes_what_is_free_in_pieces) {
  calendar c;
  EXPECT_EQ(c.book_first_free(10, 10), 10);
  EXPECT_EQ(c.book_first_free(30, 10), 30);
  EXPECT_EQ(c.book_first_free(0, 25), 0) << "10 before the first, 10 between, 5 behind the second";
  EXPECT_EQ(c.book_first_free(0, 1), 45);
  EXPECT_EQ(c.book_first_free(100, 5), 100);
  EXPECT_EQ(c.book_first_free(101, 5), 105) << "not before what it begins within has ended";
}

TEST(calendar, nothing_takes_no_time) {
  calendar c;
  EXPECT_EQ(c.book_first_free(10, 0), 10);
  EXPECT_EQ(c.book_first_free(10, 5), 10);
  EXPECT_EQ(c.book_first_free(10, 0), 15);
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
      ASSERT_EQ(c.book_first_free(static_cast<nanoseconds>(at), static_cast<nanoseconds>(length)),
                static_cast<nanoseconds>(begin));
      for (std::size_t t = begin, left = length; left > 0; ++t) {
        left -= taken[t] ? 0 : 1;
        taken[t] = true;
      }
    }
  }
}

}  // namespace
}  // namespace um
