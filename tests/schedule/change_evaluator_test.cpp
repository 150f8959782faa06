// What a change of decisions does, against the whole list of events and its forecast.
#include "schedule/change_evaluator.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "schedule/fit_transfers.hpp"
#include "schedule/minimum_fit.hpp"
#include "tests/schedule/random_decisions.hpp"

namespace {

using namespace um;
using namespace um::testing;

constexpr byte_count unlimited = std::numeric_limits<byte_count>::max();

list_totals whole_list(event_builder& events, forecaster& costs, const use_table& uses,
                       const std::vector<decision>& decisions, const std::vector<bool>& staged,
                       byte_count budget, std::vector<event>& all) {
  const std::span<const event> made = events.build(decisions, staged);
  all.assign(made.begin(), made.end());
  list_totals f;
  f.peak = costs.forecast_memory(all, staged).peak;
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
      const std::vector<bool> staged = find_staged_tensors(uses, gaps, next);
      const list_totals said = list.evaluate(next, staged, changed, budget);
      const list_totals is = whole_list(whole, whole_costs, uses, next, staged, budget, all);
      const std::span<const event> events = list.new_events();
      ASSERT_TRUE(std::ranges::equal(events, all)) << "change " << i;
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
    minimum_fitter fitter(g, uses, gaps, own_costs);
    std::vector<decision> now = random_decisions(gaps, dice, 2);
    for (int i = 0; i < 40 && !gaps.empty(); ++i) {
      const std::vector<decision> others = random_decisions(gaps, dice, 2);
      const std::size_t changed = dice() % gaps.size();
      now[changed] = others[changed];
      if (i % 10 == 5) now = others;
      std::vector<decision> fitted = now;
      const fit_result expected = fit_transfers(g, uses, gaps, whole_costs, 0, fitted);
      const minimum_need need = fitter.need_of(now);
      EXPECT_EQ(need.peak, expected.peak);
      EXPECT_EQ(need.recompute_time, expected.recompute_time);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(catalogue, changed_lists, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

}  // namespace
