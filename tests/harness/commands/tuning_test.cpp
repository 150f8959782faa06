// The search over rules, with made-up times, and what ablations say.
#include "harness/commands/tuning.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/commands/ablation.hpp"
#include "hints/hints.hpp"

namespace um {
namespace {

hint_strategy row(std::string_view name) {
  return *std::ranges::find(hint_table(), name, &hint_strategy::name);
}

template <class Rule>
const Rule* find_rule(const hint_strategy& s) {
  for (const hint_rule& r : s.rules) {
    if (const auto* x = std::get_if<Rule>(&r.policy)) return x;
  }
  return nullptr;
}

// A discard halves the time, a prefetch is best 8 operators ahead, every rule costs a little, evictions fail.
std::optional<double> pretended(const hint_strategy& s) {
  if (find_rule<evict_rule>(s) != nullptr) return std::nullopt;
  double time = 1000 + static_cast<double>(s.rules.size());
  if (const auto* p = find_rule<prefetch_rule>(s)) {
    time -=
        p->unit == look_ahead_unit::operators ? 200 - 10 * std::abs(static_cast<double>(p->ahead - 8)) : 0;
  }
  const auto* d = find_rule<discard_rule>(s);
  return d != nullptr && d->repopulates ? time / 2 : time;
}

struct counted {
  std::size_t calls = 0, strategies = 0;
  std::size_t stop_after = 1000;
  strategy_timer time() {
    return [this](std::span<const hint_strategy> all,
                  const std::string&) -> std::optional<std::vector<std::optional<double>>> {
      if (++calls > stop_after) return std::nullopt;
      strategies += all.size();
      std::vector<std::optional<double>> times;
      for (const hint_strategy& s : all) times.push_back(pretended(s));
      return times;
    };
  }
};

TEST(Alternatives, AreSoundAndDifferFromWhereTheyStart) {
  for (const hint_strategy& s : hint_table()) {
    for (const alternatives& a : neighbours_of_strategy(s)) {
      for (const hint_strategy& x : a.points) {
        EXPECT_FALSE(defect_of(x).has_value()) << s.name << ", " << a.kind;
        EXPECT_NE(x.rules, s.rules) << s.name << ", " << a.kind;
      }
    }
  }
}

TEST(Alternatives, SwitchRulesOffAndOnAndChangeTheirNumbers) {
  const std::vector<alternatives> all = neighbours_of_strategy(row("discard_prefetch"));
  EXPECT_EQ(all.front().points.size(), 2U);  // without either rule
  EXPECT_EQ(all.front().points.at(0).rules.size(), 1U);
  EXPECT_EQ(all.back().points.front().rules.size(), 3U);  // with one more
  EXPECT_TRUE(std::ranges::any_of(all, [](const alternatives& a) {
    return std::ranges::any_of(a.points, [](const hint_strategy& s) {
      const auto* p = find_rule<prefetch_rule>(s);
      return p != nullptr && p->unit == look_ahead_unit::operators && p->ahead == 8;
    });
  }));
}

TEST(Search, FindsRulesAndNumbersAndDropsWhatCostsNothing) {
  counted c;
  const std::vector<hint_strategy> starts{row("managed_advise")};
  const search_result found = search_strategies(starts, 1000, c.time());
  const hint_strategy& best = found.timed_strategies.front().point;
  EXPECT_EQ(best.rules.size(), 2U);
  ASSERT_NE(find_rule<prefetch_rule>(best), nullptr);
  EXPECT_EQ(find_rule<prefetch_rule>(best)->ahead, 8);
  ASSERT_NE(find_rule<discard_rule>(best), nullptr);
  EXPECT_EQ(*found.timed_strategies.front().cost, (1002.0 - 200) / 2);
}

TEST(Search, TimesNothingTwiceAndKeepsToItsLimit) {
  counted c;
  const search_result found = search_strategies(hint_table(), 60, c.time());
  EXPECT_EQ(c.strategies, 60U);
  EXPECT_EQ(found.timed_strategies.size(), 60U);
  for (std::size_t i = 0; i < found.timed_strategies.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      EXPECT_NE(found.timed_strategies[i].point.rules, found.timed_strategies[k].point.rules)
          << i << ' ' << k;
  }
}

TEST(Search, IsTheSameEveryTimeAndWhatFailsComesLast) {
  counted a, b;
  const search_result x = search_strategies(hint_table(), 200, a.time());
  const search_result y = search_strategies(hint_table(), 200, b.time());
  ASSERT_EQ(x.timed_strategies.size(), y.timed_strategies.size());
  for (std::size_t i = 0; i < x.timed_strategies.size(); ++i)
    EXPECT_EQ(x.timed_strategies[i].point, y.timed_strategies[i].point);
  EXPECT_FALSE(x.timed_strategies.back().cost.has_value());
  EXPECT_TRUE(std::ranges::is_sorted(x.timed_strategies, {}, [](const timed_strategy& t) {
    return t.cost.value_or(std::numeric_limits<double>::infinity());
  }));
}

TEST(Search, SaysThatItWasStopped) {
  counted c;
  c.stop_after = 2;
  EXPECT_TRUE(search_strategies(hint_table(), 200, c.time()).was_stopped);
  c = {};
  EXPECT_FALSE(search_strategies(hint_table(), 200, c.time()).was_stopped);
}

TEST(Ablation, TakesEachRuleAloneAndEachAway) {
  const ablation_plan plan = plan_ablation(row("discard_prefetch"));
  ASSERT_EQ(plan.single_rules.size(), 2U);
  ASSERT_EQ(plan.without_one_rule.size(), 2U);
  EXPECT_EQ(plan.without_one_rule[0].rules.name,
            "discard_prefetch,without=" + plan.without_one_rule[0].rule_name);
  EXPECT_EQ(plan.single_rules[0].rules.rules.front().name, plan.single_rules[0].rule_name);
  EXPECT_EQ(strategies_of(plan).size(), 5U);
}

TEST(Ablation, LeavesOutWhatWouldBeNoStrategy) {
  const ablation_plan plan = plan_ablation(row("twin"));  // a search needs something to search over
  const auto named = [](std::string_view rule) {
    return [rule](const rule_subset& a) { return a.rule_name == rule; };
  };
  EXPECT_TRUE(std::ranges::none_of(plan.single_rules, named("search")));
  EXPECT_TRUE(std::ranges::none_of(plan.without_one_rule, named("evict")));
  EXPECT_TRUE(std::ranges::any_of(plan.without_one_rule, named("search")));
}

TEST(Ablation, CallsHarmfulWhatHarms) {
  const std::vector<hint_rule> discard = row("discard_alone").rules;
  EXPECT_EQ(verdict(100, 1000, discard),
            "harmful: 10.00 times as long (with no prefetch, the next write populates page by page)");
  EXPECT_EQ(verdict(100, 200, row("read_mostly_activations").rules),
            "harmful: 2.00 times as long (every write takes back the copies)");
  EXPECT_EQ(verdict(100, 200, row("read_mostly_weights").rules), "harmful: 2.00 times as long");
  EXPECT_EQ(verdict(100, 50, discard), "helps: 2.00 times as fast");
  EXPECT_EQ(verdict(100, 101, discard), "no effect");
}

}  // namespace
}  // namespace um
