// How candidates are timed needs no GPU: pretended engines with a time a call and one of loading.
#include "backends/cuda/engine_trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace um {
namespace {

constexpr nanoseconds ms = 1'000'000, us = 1'000;

struct pretended {
  nanoseconds call = 0, loading = 0, launch = 5 * us;
  bool accurate = true;
  nanoseconds event = 0;
  int calls = 0;

  nanoseconds tried(nanoseconds to_beat) {
    return trial_time({[this] {
                         ++calls;
                         return accurate ? call + loading + launch : never;
                       },
                       [this](int before, int counted) {
                         calls += before + counted;
                         return call + (before + counted == 1 ? launch : 0) + (counted == 1 ? event : 0);
                       }},
                      to_beat);
  }
};

TEST(trials, call_what_is_clearly_slower_and_long_once) {
  pretended slow{600 * ms};
  EXPECT_GT(slow.tried(400 * ms), 400 * ms);
  EXPECT_EQ(slow.calls, 1);
}

TEST(trials, call_what_may_have_loaded_a_second_time) {
  pretended candidate{9 * ms, 40 * ms};
  EXPECT_EQ(candidate.tried(10 * ms), 9 * ms);
  EXPECT_LE(candidate.calls, 5);
  pretended long_one{390 * ms, 50 * ms};
  EXPECT_LT(long_one.tried(400 * ms), 400 * ms);
  EXPECT_EQ(long_one.calls, 2);
}

TEST(trials, call_what_takes_seconds_once) {
  pretended endless{3000 * ms, 50 * ms};
  EXPECT_EQ(endless.tried(never), 3050 * ms + endless.launch);
  EXPECT_EQ(endless.calls, 1);
}

TEST(trials, leave_what_is_slower_after_the_second_call) {
  pretended slow{30 * ms};
  EXPECT_GT(slow.tried(20 * ms), 20 * ms);
  EXPECT_EQ(slow.calls, 2);
}

TEST(trials, say_no_more_of_a_single_call_than_it_tells) {
  pretended slow{60 * ms, 60 * ms};
  const nanoseconds found = slow.tried(30 * ms);
  EXPECT_EQ(slow.calls, 1);
  EXPECT_GT(found, 30 * ms);
  EXPECT_LE(found, 60 * ms) << "what the first call loaded is no part of its time";
}

TEST(trials, count_no_launch_in_a_brief_call) {
  pretended brief{20 * us};
  EXPECT_EQ(brief.tried(21 * us), 20 * us);
  EXPECT_EQ(brief.calls, 1 + 1 + 4 + 10);
}

// A single call is timed between events, which take as long as a brief call; the winner so far was not.
TEST(trials, decide_about_brief_calls_by_several) {
  pretended faster{.call = 4 * us, .event = 4 * us};
  EXPECT_EQ(faster.tried(5 * us), 4 * us);
}

TEST(trials, time_the_first_candidate_of_all) {
  pretended long_one{700 * ms, 40 * ms}, short_one{ms};
  EXPECT_NEAR(static_cast<double>(long_one.tried(never)), 700e6, 1e6);
  EXPECT_EQ(long_one.calls, 2);
  EXPECT_EQ(short_one.tried(never), ms);
}

TEST(trials, leave_a_wrong_result_after_one_call) {
  pretended wrong{ms, 0, 0, false};
  EXPECT_EQ(wrong.tried(10 * ms), never);
  EXPECT_EQ(wrong.calls, 1);
}

// Whatever the order, none that is slower by more than what one call may be off is kept.
TEST(trials, keep_the_fastest_in_any_order) {
  std::vector<nanoseconds> times{3 * ms, 90 * ms, 40 * ms, 2 * ms, 700 * ms};
  std::sort(times.begin(), times.end());
  do {
    nanoseconds best = never;
    for (const nanoseconds time : times) {
      pretended candidate{time, 30 * ms};
      best = std::min(best, candidate.tried(best));
    }
    EXPECT_EQ(best, 2 * ms);
  } while (std::next_permutation(times.begin(), times.end()));
}

TEST(search_patience, ends_after_a_dozen_or_a_second_and_a_half_without_gain) {
  search_patience p(0);
  for (int i = 0; i < 11; ++i) p.failed_to_gain();
  EXPECT_TRUE(p.is_left(1499 * ms));
  EXPECT_FALSE(p.is_left(1500 * ms));
  p.failed_to_gain();
  EXPECT_FALSE(p.is_left(ms));
  p.record_gain(1500 * ms);
  EXPECT_TRUE(p.is_left(2000 * ms));
}

}  // namespace
}  // namespace um
