#include "core/figures.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/trace.hpp"

namespace um {
namespace {

TEST(Figures, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const figure& f : figures()) EXPECT_TRUE(names.insert(f.name).second) << f.name;
  EXPECT_GT(names.size(), 40U);
}

TEST(Figures, AreSetOneByOne) {
  for (const figure& f : figures()) {
    machine m;
    const std::int64_t before = value_of(m, f);
    set_value(m, f, before + 7);
    EXPECT_EQ(value_of(m, f), before + 7) << f.name;
    for (const figure& other : figures()) {
      if (other.name == f.name) continue;
      EXPECT_EQ(value_of(m, other), value_of(machine{}, other)) << other.name << f.name;
    }
  }
}

TEST(Figures, ThoseOfTheDriverAreNamedAfterIt) {
  for (const figure& f : figures()) {
    const bool of_driver = f.member.index() >= 2;
    EXPECT_EQ(f.name.starts_with("uvm."), of_driver) << f.name;
  }
}

// What a file may leave out must be of use as it is.
TEST(Figures, OfADefaultMachineAreWithinTheirLimitsWhereAFileMayLackThem) {
  for (const figure& f : figures()) {
    if (!f.is_optional) continue;
    EXPECT_GE(value_of(machine{}, f), f.min_value) << f.name;
    EXPECT_LE(value_of(machine{}, f), f.max_value) << f.name;
  }
}

counters counters_of(byte_count each) {
  counters c;
  for (const counter_field& f : counter_fields) c.*f.member = each;
  return c;
}

TEST(Amplification, CountsEveryMigrationAndCopyBothWaysAndNothingElse) {
  EXPECT_EQ(amplification(counters_of(100), 300), 2.0) << "six causes";
  counters c = counters_of(0);
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
    counters c = counters_of(1);
    (c.*cause).reset();
    EXPECT_EQ(amplification(c, 300), std::nullopt);
  }
  counters measured = counters_of(1);
  measured.remote_bytes.reset();
  measured.evicted_blocks.reset();
  EXPECT_TRUE(amplification(measured, 300)) << "a GPU tells neither";
  EXPECT_EQ(amplification(counters_of(1), 0), std::nullopt);
}

}  // namespace
}  // namespace um
