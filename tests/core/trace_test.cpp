#include "core/trace.hpp"

#include <gtest/gtest.h>

namespace um {
namespace {

counters all_of(byte_count each) {
  counters c;
  for (const counter_field& f : counter_fields) c.*f.member = each;
  return c;
}

TEST(Amplification, CountsEveryMigrationAndCopyBothWaysAndNothingElse) {
  EXPECT_EQ(amplification(all_of(100), 300), 2.0) << "six causes";
  counters c = all_of(0);
  c.faults = c.fault_batches = c.evicted_blocks = 7;
  c.remote_bytes = 1000;
  EXPECT_EQ(amplification(c, 300), 0.0);
  c.fault_to_device_bytes = 300;
  c.driver_evict_bytes = 150;
  EXPECT_EQ(amplification(c, 300), 1.5);
}

TEST(Amplification, IsUnknownWhereACauseWasNotObservedOrNothingIsTouched) {
  for (const auto cause : {&counters::fault_to_device_bytes, &counters::prefetch_to_device_bytes,
                           &counters::copy_to_device_bytes, &counters::driver_evict_bytes,
                           &counters::plan_evict_bytes, &counters::copy_to_host_bytes}) {
    counters c = all_of(1);
    (c.*cause).reset();
    EXPECT_EQ(amplification(c, 300), std::nullopt);
  }
  counters measured = all_of(1);
  measured.remote_bytes.reset();
  measured.evicted_blocks.reset();
  EXPECT_TRUE(amplification(measured, 300)) << "a GPU tells neither";
  EXPECT_EQ(amplification(all_of(1), 0), std::nullopt);
}

}  // namespace
}  // namespace um
