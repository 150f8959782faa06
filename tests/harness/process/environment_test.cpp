#include <gtest/gtest.h>

#include <fstream>

#include "harness/process/collect.hpp"
#include "harness/process/facts.hpp"

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

}  // namespace
}  // namespace um
