#include <gtest/gtest.h>

#include <fstream>

#include "harness/process/collect.hpp"
#include "harness/process/facts.hpp"
#include "harness/process/preflight.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

// A machine made of files.
class Facts : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const char* path, const char* text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("umbench-root-" + std::to_string(getpid()));
};

TEST_F(Facts, OfAHost) {
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("sys/devices/system/node/node0/x", "");
  write("sys/devices/system/node/node1/x", "");
  write("sys/devices/system/node/online", "0-1\n");
  write("sys/class/iommu/dmar0/x", "");
  write("proc/cpuinfo", "model name : made up\nflags\t\t: fpu hypervisor\n");
  write("proc/meminfo", "MemTotal: 1 kB\nSwapTotal:       2048 kB\n");
  const named_facts wanted{
      {"governor", "performance"}, {"huge_pages", "madvise"}, {"iommu", "on"},
      {"numa_nodes", "2"},         {"swap", "2048 kB"},       {"virtual_machine", "yes"}};
  EXPECT_EQ(host_facts_in(root_), (fact_sheet{wanted, {}}));
}

TEST_F(Facts, OfAGpu) {
  write("sys/bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
  write("sys/bus/pci/devices/0000:1b:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  write("sys/bus/pci/devices/0000:1b:00.0/max_link_width", "16\n");
  write("sys/bus/pci/devices/0000:1b:00.0/iommu_group/type", "identity\n");
  write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1\n");
  const named_facts wanted{{"numa_node", "1"},
                           {"pcie_most_speed", "32.0 GT/s PCIe"},
                           {"pcie_most_width", "16"},
                           {"iommu_domain", "identity"},
                           {"kernel_module", "open"}};
  EXPECT_EQ(gpu_facts_in(root_, "0000:1b:00.0"), (fact_sheet{wanted, {}}));
  write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1\n");
  const fact_sheet absent = gpu_facts_in(root_, "0000:00:00.0");
  EXPECT_EQ(absent.known, (named_facts{{"kernel_module", "proprietary"}}));
  EXPECT_EQ(absent.missing.size(), 4U);
  EXPECT_EQ(absent.missing.at("iommu_domain"), "/sys/bus/pci/devices/*/iommu_group/type does not tell");
}

TEST_F(Facts, WhatIsNotThereHasAReason) {
  const fact_sheet host = host_facts_in(root_);
  EXPECT_EQ(host.known, (named_facts{{"iommu", "off"}}));
  const char* governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor does not tell";
  const named_facts reasons{{"governor", governor},
                            {"huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled does not tell"},
                            {"numa_nodes", "/sys/devices/system/node does not tell"},
                            {"swap", "/proc/meminfo does not tell"},
                            {"virtual_machine", "/proc/cpuinfo does not tell"}};
  EXPECT_EQ(host.missing, reasons);
  const fact_sheet gpu = gpu_facts_in(root_, "");
  EXPECT_TRUE(gpu.known.empty());
  EXPECT_EQ(gpu.missing.size(), 5U);
}

TEST(Environment, OfThisMachineKnowsEveryFactOrWhyNot) {
  const environment here = collect_environment(std::nullopt);
  for (const char* name : {"governor", "huge_pages", "iommu", "numa_nodes", "swap", "virtual_machine"}) {
    EXPECT_EQ(here.host.facts.known.count(name) + here.host.facts.missing.count(name), 1U) << name;
  }
  EXPECT_NE(here.nvidia_uvm.has_value(), here.host.facts.missing.contains("nvidia_uvm"));
}

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
  expect_words(
      shortage_text(9 * GiB + 1, 2 * GiB, m).value(),
      {"9.00 GiB of host memory", "2.00 GiB pinned", "20.0 GiB available",
       "10.0 GiB left to its control group", "1.00 GiB of swap do not count", "RLIMIT_MEMLOCK is 1.00 MiB"});
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
