// The engine cache needs no GPU.
#include "backends/cuda/engine_cache.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "backends/cuda/engine_trial.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

class engine_caches : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path file() const { return folder_ / "deeper" / "engines.jsonl"; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("umbench_cache_" + std::to_string(getpid()));
};

TEST_F(engine_caches, keep_choices_across_instances) {
  const engine_choice choice{"eng7_k1=2", 3, 1 * MiB, 1234};
  EXPECT_FALSE(engine_cache(file()).find("key"));
  EXPECT_EQ(engine_cache(file()).store("key", choice), choice);
  EXPECT_EQ(engine_cache(file()).find("key"), choice);
  EXPECT_FALSE(engine_cache(file()).find("another"));
}

TEST_F(engine_caches, let_the_first_writer_win) {
  engine_cache early(file()), late(file());
  const engine_choice first{"first", 0, 0, 10}, second{"second", 1, 0, 5};
  EXPECT_EQ(early.store("key", first), first);
  EXPECT_EQ(late.store("key", second), first);
  EXPECT_EQ(late.find("key"), first);
}

TEST_F(engine_caches, replace_a_choice_that_went_stale) {
  engine_cache cache(file());
  const engine_choice stale{"gone", 0, 0, 10}, fresh{"fresh", 1, 0, 5};
  cache.store("key", stale);
  EXPECT_EQ(cache.store("key", fresh, stale), fresh);
  EXPECT_EQ(engine_cache(file()).find("key"), fresh);
}

TEST_F(engine_caches, skip_lines_that_cannot_be_read) {
  std::filesystem::create_directories(file().parent_path());
  const engine_choice before{"before", 0, 0, 1}, choice{"engine", 0, 0, 1};
  for (const char* const text : {"", "\n", "[]\n", "{\"key\":\"key\"}\n",
                                 R"({"engine":"e","key":"key","parts":1,"position":0,"time_ns":1)"}) {
    std::filesystem::remove(file());
    engine_cache(file()).store("before", before);
    std::ofstream(file(), std::ios::app) << text;
    EXPECT_FALSE(engine_cache(file()).find("key")) << text;
    EXPECT_EQ(engine_cache(file()).store("key", choice), choice) << text;
    EXPECT_EQ(engine_cache(file()).find("key"), choice) << text;
    EXPECT_EQ(engine_cache(file()).find("before"), before) << text;
  }
}

TEST_F(engine_caches, read_lines_of_earlier_builds) {
  std::filesystem::create_directories(file().parent_path());
  std::ofstream(file())
      << R"({"engine":"eng7_k1=2","key":"a, b","parts":2,"position":3,"time_ns":1234,"workspace_bytes":5})"
      << '\n';
  EXPECT_EQ(engine_cache(file()).find("a, b"), (engine_choice{"eng7_k1=2", 3, 5, 1234, 2}));
}

TEST_F(engine_caches, begin_anew_where_the_file_was_removed) {
  engine_cache cache(file());
  const engine_choice choice{"engine", 0, 0, 1};
  cache.store("a long key that makes the first file longer", choice);
  std::filesystem::remove(file());
  engine_cache(file()).store("other", choice);
  engine_cache(file()).store("a second one, so that the new file is the longer one", choice);
  cache.store("key", choice);
  EXPECT_EQ(cache.find("other"), choice);
  EXPECT_EQ(engine_cache(file()).find("key"), choice);
}

// The file keeps its beginning: a choice costs the same in a large file.
TEST_F(engine_caches, append_each_choice_once) {
  engine_cache cache(file());
  cache.store("key", {"engine", 0, 0, 1});
  const auto once = std::filesystem::file_size(file());
  cache.store("key", {"engine", 0, 0, 1});
  EXPECT_EQ(std::filesystem::file_size(file()), once);
  cache.store("kez", {"engine", 0, 0, 1});
  EXPECT_EQ(std::filesystem::file_size(file()), 2 * once);
}

TEST_F(engine_caches, name_the_file_that_cannot_be_written) {
  std::filesystem::create_directories(file().parent_path().parent_path());
  std::ofstream(file().parent_path()) << "a file where the folder should be";
  engine_cache cache(file());
  expect_words(refusal<std::exception>([&] { cache.store("key", {"engine", 0, 0, 1}); }),
               {file().string(), "XDG_CACHE_HOME"});
}

TEST_F(engine_caches, lose_nothing_to_concurrent_writers) {
  constexpr int writers = 4, keys = 25;
  std::vector<pid_t> children;
  for (int w = 0; w < writers; ++w) {
    const pid_t child = fork();
    if (child == 0) {
      engine_cache cache(file());
      for (int k = 0; k < keys; ++k) cache.store(std::to_string(w) + "/" + std::to_string(k), {"e", k, 0, w});
      _exit(0);
    }
    ASSERT_GT(child, 0);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const engine_cache all(file());
  for (int w = 0; w < writers; ++w) {
    for (int k = 0; k < keys; ++k) {
      EXPECT_EQ(all.find(std::to_string(w) + "/" + std::to_string(k)), (engine_choice{"e", k, 0, w}));
    }
  }
}

TEST(standard_engine_cache, follows_the_environment) {
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(standard_engine_cache(), "/somewhere/umbench/engines.jsonl");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/one", 1);
  EXPECT_EQ(standard_engine_cache(), "/home/one/.cache/umbench/engines.jsonl");
}

// How candidates are timed needs no GPU: pretended engines with a time a call and one of loading.

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
  EXPECT_TRUE(p.may_continue(1499 * ms));
  EXPECT_FALSE(p.may_continue(1500 * ms));
  p.failed_to_gain();
  EXPECT_FALSE(p.may_continue(ms));
  p.record_gain(1500 * ms);
  EXPECT_TRUE(p.may_continue(2000 * ms));
}

}  // namespace
}  // namespace um
