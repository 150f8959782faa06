#include "harness/process/preflight.hpp"

#include <gtest/gtest.h>

namespace um {
namespace {

constexpr byte_count GiB = byte_count{1} << 30;

TEST(Preflight, ATenthAtMostEightGiBStaysFree) {
  EXPECT_EQ(usable_host_bytes({.available = 10 * GiB}), 9 * GiB);
  EXPECT_EQ(usable_host_bytes({.available = 200 * GiB}), 192 * GiB);
  EXPECT_EQ(usable_host_bytes({.available = 100 * GiB, .swap_free = 50 * GiB, .cgroup_left = 10 * GiB}),
            9 * GiB);
  EXPECT_EQ(usable_host_bytes({}), 0U);
}

TEST(Preflight, TheHostHoldsWhatIsPinnedAndWhatSpills) {
  EXPECT_EQ(host_bytes_needed(5, 100, 20, 80), 5U + 40U);
  EXPECT_EQ(host_bytes_needed(5, 10, 20, 80), 5U);
  EXPECT_EQ(host_bytes_needed(0, 100, 90, 80), 100U);
}

TEST(Preflight, AShortageNamesItsFigures) {
  EXPECT_EQ(shortage_text(9 * GiB, 0, {.available = 10 * GiB}), std::nullopt);
  const host_memory m{
      .available = 20 * GiB, .swap_free = GiB, .cgroup_left = 10 * GiB, .pin_limit = GiB / 1024};
  const std::string why = shortage_text(9 * GiB + 1, 2 * GiB, m).value();
  for (const char* word : {"9.00 GiB of host memory", "2.00 GiB pinned", "20.0 GiB available",
                           "10.0 GiB left to its control group", "1.00 GiB of swap do not count",
                           "RLIMIT_MEMLOCK is 1.00 MiB"}) {
    EXPECT_NE(why.find(word), std::string::npos) << word << " in " << why;
  }
}

TEST(Preflight, OnlyCellsOfAGpuMustFitThisHost) {
  const available_memory m{{.available = 10 * GiB}};
  std::vector<cell_needs> all(2);
  all[0] = {.key = "simulated", .host_bytes = 100 * GiB};
  all[1] = {.key = "real", .on_gpu = true, .host_bytes = 100 * GiB};
  EXPECT_NE(preflight_warning(all, m).find("1 of 2 cells do not fit here and will not run, such as real"),
            std::string::npos);
  EXPECT_TRUE(any_fits(all, m));
  EXPECT_FALSE(any_fits(std::span(all).subspan(1), m));
  all[1].host_bytes = GiB;
  EXPECT_EQ(preflight_warning(all, m), "");
  EXPECT_TRUE(any_fits({}, m));
}

TEST(Preflight, CellsMustFitTheFreeDeviceMemory) {
  std::vector<cell_needs> all(1);
  all[0] = {.key = "real", .on_gpu = true, .device_bytes = 6 * GiB, .device_arena_bytes = GiB};
  all[0].guarded_managed_bytes = 8 * GiB;
  const auto warning = [&](byte_count free) { return preflight_warning(all, {{.available = GiB}, free}); };
  EXPECT_EQ(warning(11 * GiB), "");
  EXPECT_NE(warning(5 * GiB).find("needs 6.00 GiB of device memory, 5.00 GiB are free"), std::string::npos);
  EXPECT_NE(warning(10 * GiB).find("needs 8.00 GiB of managed memory, the limit is 80 % of the 9.00 GiB"),
            std::string::npos);
  EXPECT_EQ(preflight_warning(all, {{.available = GiB}}), "")
      << "without a GPU there is nothing to compare with";
}

TEST(Preflight, WhatIsInfeasibleWillNotRun) {
  std::vector<cell_needs> all(1);
  all[0] = {.key = "real", .on_gpu = true, .result = outcome::infeasible, .reason = "too tight"};
  EXPECT_NE(preflight_warning(all, {}).find("real: it is infeasible: too tight"), std::string::npos);
  EXPECT_FALSE(any_fits(all, {}));
  all[0].result = outcome::unsupported;  // by the machine that stands in: no reason not to try
  EXPECT_TRUE(any_fits(all, {}));
}

TEST(Preflight, ThisHostHasMemory) {
  const host_memory m = host_memory_now();
  EXPECT_GT(m.available, 0U);
  EXPECT_LE(usable_host_bytes(m), m.available);
}

}  // namespace
}  // namespace um
