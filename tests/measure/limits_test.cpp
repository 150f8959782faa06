#include "measure/limits.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/errors.hpp"
#include "tests/refusal.hpp"

namespace um::measure {
namespace {

// A /proc and /sys of the test's own.
class available_host : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("um_limits_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::filesystem::path root_;
};

constexpr const char* meminfo = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n";

TEST_F(available_host, is_unknown_without_proc) {
  EXPECT_FALSE(available_host_bytes(root_));
}

TEST_F(available_host, is_what_the_kernel_says) {
  write("proc/meminfo", meminfo);
  EXPECT_EQ(available_host_bytes(root_), 8 * GiB);
}

TEST_F(available_host, is_less_in_a_group_of_version_2) {
  write("proc/meminfo", meminfo);
  write("sys/fs/cgroup/memory.max", "3221225472\n");
  write("sys/fs/cgroup/memory.current", "1073741824\n");
  EXPECT_EQ(available_host_bytes(root_), 2 * GiB);
}

TEST_F(available_host, is_less_in_a_group_of_version_1) {
  write("proc/meminfo", meminfo);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2073741824\n");
  EXPECT_EQ(available_host_bytes(root_), 0U);
}

// The tightest counts, which may be above the own one.
TEST_F(available_host, is_less_in_a_group_below_another) {
  write("proc/meminfo", meminfo);
  write("proc/self/cgroup", "0::/users.slice/job\n");
  write("sys/fs/cgroup/users.slice/memory.max", "3221225472\n");
  write("sys/fs/cgroup/users.slice/memory.current", "1073741824\n");
  write("sys/fs/cgroup/users.slice/job/memory.max", "max\n");
  write("sys/fs/cgroup/users.slice/job/memory.current", "1\n");
  EXPECT_EQ(available_host_bytes(root_), 2 * GiB);
  write("sys/fs/cgroup/users.slice/job/memory.max", "1073741824\n");
  write("sys/fs/cgroup/users.slice/job/memory.current", "0\n");
  EXPECT_EQ(available_host_bytes(root_), GiB);
}

TEST_F(available_host, is_less_in_a_group_of_version_1_below_another) {
  write("proc/meminfo", meminfo);
  write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "0\n");
  write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  write("sys/fs/cgroup/memory/other/memory.usage_in_bytes", "0\n");
  EXPECT_EQ(available_host_bytes(root_), GiB);
}

TEST_F(available_host, does_not_mind_a_group_without_limit) {
  write("proc/meminfo", meminfo);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "1073741824\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  EXPECT_EQ(available_host_bytes(root_), 8 * GiB);
}

TEST(limits_of, are_shares) {
  const memory_limits limits = limits_of(10 * GiB, 6 * GiB);
  EXPECT_EQ(limits.device, 8 * GiB);
  EXPECT_EQ(limits.host, 3 * GiB);
}

TEST(memory_ledger, keeps_the_sum_below_the_limits) {
  memory_ledger ledger({4 * GiB, 2 * GiB});
  const auto managed = ledger.grant({GiB, GiB});
  const auto device = ledger.grant({3 * GiB, 0});
  EXPECT_EQ(ledger.granted().device, 4 * GiB);
  EXPECT_THROW(static_cast<void>(ledger.grant({1, 0})), out_of_memory);
  EXPECT_THROW(static_cast<void>(ledger.grant({0, GiB + 1})), out_of_memory);
  EXPECT_NO_THROW(static_cast<void>(ledger.grant({0, GiB})));
}

TEST(memory_ledger, refuses_with_figures) {
  memory_ledger ledger({4 * GiB, 2 * GiB});
  const auto held = ledger.grant({GiB, 0});
  const auto grant = [&] { static_cast<void>(ledger.grant({~byte_count{0}, 0})); };
  expect_words(refusal<out_of_memory>(grant), {"1.00 GiB held", "below 4.00 GiB"});
}

TEST(memory_ledger, has_back_what_a_lease_gave_up) {
  memory_ledger ledger({GiB, GiB});
  {
    auto first = ledger.grant({GiB, GiB});
    const memory_ledger::lease second = std::move(first);
    EXPECT_EQ(ledger.granted().host, GiB);
  }
  EXPECT_EQ(ledger.granted().device, 0U);
  EXPECT_EQ(ledger.granted().host, 0U);
}

}  // namespace
}  // namespace um::measure
