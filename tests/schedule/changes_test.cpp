// What a change of decisions does, against the whole list of events and its forecast.
#include "schedule/changes.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/schedule/random_decisions.hpp"

namespace {

using namespace um;
using namespace um::testing;

constexpr byte_count unlimited = std::numeric_limits<byte_count>::max();

list_figures whole_list(event_builder& events, forecaster& costs, const use_table& uses,
                        const std::vector<decision>& decisions, const std::vector<bool>& staged,
                        byte_count budget, std::vector<event>& all) {
  const std::span<const event> made = events.build(decisions, staged);
  all.assign(made.begin(), made.end());
  list_figures f;
  f.peak = costs.memory_of(all, staged).peak;
  f.events = static_cast<std::int64_t>(all.size());
  for (const byte_count live : costs.live()) f.over += live > budget ? live - budget : 0;
  for (const event& e : all) {
    if (e.what == verb::compute) {
      f.computing += costs.time_of(e);
      if (e.again) f.again += costs.time_of(e);
    } else if (e.what != verb::discard) {
      ++f.transfers;
      if (e.what != verb::prefetch) continue;
      ++f.fetches;
      f.fetched += uses.parts[e.which].bytes;
    }
  }
  return f;
}

class changed_lists : public ::testing::TestWithParam<std::string> {
 protected:
  graph g = small_graph(GetParam());
  machine on = test_machine();
  profile costs = estimate(g, on);
  problem p{g, costs, on, unlimited, pressure::none, {}, estimate_slices(g, on)};
};

// A few decisions at a time, kept or not.
TEST_P(changed_lists, are_as_if_made_anew) {
  std::mt19937 dice(5);
  for (const loops& l : loops_for(g)) {
    const use_table uses = uses_of(g, order_of(g, l));
    const std::vector<gap> gaps = gaps_of(g, uses);
    if (gaps.empty()) continue;
    event_builder builder(g, uses, gaps), whole(g, uses, gaps);
    forecaster block_costs(p, uses), whole_costs(p, uses);
    changes list(uses, gaps, builder, block_costs);
    std::vector<decision> now = random_decisions(gaps, dice, 8);
    std::vector<event> all;
    const list_figures first =
        whole_list(whole, whole_costs, uses, now, staged_tensors(uses, gaps, now), unlimited, all);
    const byte_count budget = first.peak / 10 * 9;
    list.restart(now, staged_tensors(uses, gaps, now), budget);
    ASSERT_EQ(list.list().now().peak, first.peak);
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
      const std::vector<bool> staged = staged_tensors(uses, gaps, next);
      const list_figures said = list.evaluate(next, staged, changed, budget);
      const list_figures is = whole_list(whole, whole_costs, uses, next, staged, budget, all);
      const std::span<const event> events = list.events();
      ASSERT_TRUE(std::ranges::equal(events, all)) << "change " << i;
      ASSERT_EQ(said.peak, is.peak) << "change " << i;
      ASSERT_EQ(said.over, is.over) << "change " << i;
      ASSERT_EQ(said.computing, is.computing);
      ASSERT_EQ(said.again, is.again);
      ASSERT_EQ(said.fetched, is.fetched);
      ASSERT_EQ(said.fetches, is.fetches);
      ASSERT_EQ(said.transfers, is.transfers);
      ASSERT_EQ(said.events, is.events);
      if (dice() % 2 == 0) continue;
      list.keep();
      now = next;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(catalogue, changed_lists, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

}  // namespace
