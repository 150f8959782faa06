// The engine cache needs no GPU.
#include "backends/cuda/engine_cache.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

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
  for (const char* const text : {"", "\n", "[]\n", "{\"key\": \"key\"}\n", "{\"key\": \"key\", \"engi"}) {
    std::filesystem::remove(file());
    engine_cache(file()).store("before", before);
    std::ofstream(file(), std::ios::app) << text;
    EXPECT_FALSE(engine_cache(file()).find("key")) << text;
    EXPECT_EQ(engine_cache(file()).store("key", choice), choice) << text;
    EXPECT_EQ(engine_cache(file()).find("key"), choice) << text;
    EXPECT_EQ(engine_cache(file()).find("before"), before) << text;
  }
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
  try {
    cache.store("key", {"engine", 0, 0, 1});
    FAIL() << "no exception";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find(file().string()), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("XDG_CACHE_HOME"), std::string::npos) << e.what();
  }
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

}  // namespace
}  // namespace um
