#include "backends/ballast.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/errors.hpp"
#include "tests/refusal.hpp"

namespace {

using namespace um;

execution_plan native(byte_count device, byte_count managed, byte_count budget) {
  execution_plan plan;
  plan.device_arena_bytes = device;
  plan.managed_arena_bytes = managed;
  plan.budget = budget;
  plan.evicted_by = evictor::driver;
  return plan;
}

TEST(ballast, leaves_what_the_budget_leaves_at_every_ratio) {
  for (const byte_count managed : {1 * GiB, 7 * GiB, 30 * GiB}) {
    EXPECT_EQ(ballast_bytes(native(1 * GiB, managed, 8 * GiB), 100 * GiB), 93 * GiB);
  }
  EXPECT_EQ(ballast_bytes(native(0, GiB, 8 * GiB), 8 * GiB), 0U);
}

TEST(ballast, takes_whole_blocks_and_never_of_the_budget) {
  const byte_count free_bytes = 10 * GiB + 3 * MiB + 17;
  const byte_count ballast = ballast_bytes(native(0, GiB, 8 * GiB), free_bytes);
  EXPECT_EQ(ballast % managed_block, 0U);
  EXPECT_GE(free_bytes - ballast, 8 * GiB);
  EXPECT_LT(free_bytes - ballast, 8 * GiB + managed_block);
}

TEST(ballast, there_is_none_where_the_driver_decides_nothing) {
  execution_plan plan = native(1 * GiB, 7 * GiB, 8 * GiB);
  plan.evicted_by = evictor::plan;
  EXPECT_EQ(ballast_bytes(plan, 100 * GiB), 0U);
  EXPECT_EQ(ballast_bytes(native(1 * GiB, 0, 8 * GiB), 100 * GiB), 0U);
  EXPECT_EQ(ballast_bytes(native(1 * GiB, GiB, std::numeric_limits<byte_count>::max()), 100 * GiB), 0U);
}

TEST(ballast, less_free_than_the_budget_leaves_is_refused_with_both_figures) {
  const auto take = [] { ballast_bytes(native(1 * GiB, 4 * GiB, 8 * GiB), 6 * GiB); };
  expect_words(refusal<out_of_memory>(take), {"7.00 GiB", "6.00 GiB"});
}

TEST(ballast, what_is_left_to_the_driver_is_what_exceeds_the_budget) {
  EXPECT_EQ(bytes_evicted_by_driver(native(1 * GiB, 9 * GiB, 8 * GiB)), 2 * GiB);
  EXPECT_EQ(bytes_evicted_by_driver(native(1 * GiB, 7 * GiB, 8 * GiB)), 0U);
  execution_plan plan = native(1 * GiB, 9 * GiB, 8 * GiB);
  plan.evicted_by = evictor::plan;
  EXPECT_EQ(bytes_evicted_by_driver(plan), 0U);
}

}  // namespace
