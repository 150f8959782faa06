// What is observed beside a run, by a library that answers as NVML does (fake_nvml.cpp).
#include "harness/process/observer.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/errors.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

constexpr const char* bus_id = "0000:1b:00.0";

std::string fake_library() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libfake_nvml.so").string();
}

nvml fake_gpu() {
  return nvml(bus_id, fake_library().c_str());
}

std::string nvml_refusal(const char* bus, const std::string& library) {
  return refusal<unsupported>([&] { nvml(bus, library.c_str()); });
}

TEST(Nvml, NamesItsFacts) {
  const named_facts wanted{{"compute_mode", "exclusive_process"},
                           {"most_memory_clock_mhz", "3201"},
                           {"most_sm_clock_mhz", "1980"},
                           {"mps", "off"},
                           {"persistence", "on"},
                           {"virtualization", "77"}};
  const named_facts reasons{{"mig", "NVML does not tell"}, {"power_limit_mw", "NVML does not tell"}};
  EXPECT_EQ(fake_gpu().facts(), (fact_sheet{wanted, reasons}));
  for (const char* name : nvml_facts) EXPECT_TRUE(wanted.contains(name) || reasons.contains(name)) << name;
  EXPECT_EQ(wanted.size() + reasons.size(), nvml_facts.size());
}

TEST(Nvml, TellsTheStateOfTheMoment) {
  const gpu_state s = fake_gpu().state();
  EXPECT_EQ(s.sm_clock_mhz, 1755U);
  EXPECT_EQ(s.memory_clock_mhz, 3200U);
  EXPECT_EQ(s.temperature_c, 41U);
  EXPECT_EQ(s.power_mw, 321'000U);
  EXPECT_EQ(s.pcie_generation, 5U);
  EXPECT_EQ(s.pcie_width, std::nullopt);
  EXPECT_EQ(s.other_processes, 3U);  // 10 to 13, one of them the caller
  EXPECT_EQ(s.throttled_by, (std::vector<std::string>{"sw_power_cap", "hw_thermal_slowdown", "0x1000"}));
}

TEST(Nvml, SaysWhyItIsNotThere) {
  expect_words(nvml_refusal(bus_id, "libthere-is-none.so.1"), {"libthere-is-none.so.1"});
  EXPECT_EQ(nvml_refusal("0000:00:00.0", fake_library()), "NVML does not know GPU 0000:00:00.0: Not Found");
  EXPECT_EQ(nvml_refusal(bus_id, "libm.so.6"), "no NVML: libm.so.6 lacks nvmlInit_v2");
}

void use_cpu_for(std::clock_t ticks) {
  for (const std::clock_t end = std::clock() + ticks; std::clock() < end;) {
  }
}

// As an executor calls it: each iteration, then the further ones.
observation observe_iterations(observer seen, std::uint32_t iterations, std::uint32_t further) {
  for (std::uint32_t done = 0; done <= iterations; ++done) seen.on_iterations_done(done);
  use_cpu_for(CLOCKS_PER_SEC / 50);  // digests, not counted
  seen.on_iterations_done(iterations);
  use_cpu_for(CLOCKS_PER_SEC / 20);
  seen.on_iterations_done(iterations + further);
  return seen.result();
}

TEST(Observer, AveragesOverTheFurtherIterations) {
  const observation seen = observe_iterations(observer(3, fake_gpu()), 3, 10);
  EXPECT_EQ(seen.missing_reason, std::nullopt);
  EXPECT_EQ(seen.before, fake_gpu().state());
  EXPECT_EQ(seen.after, fake_gpu().state());
  EXPECT_EQ(seen.energy_uj, 300'000U);  // 3 J among 10
  EXPECT_GE(seen.host_cpu, 4'500'000);
  EXPECT_LT(seen.host_cpu, 6'500'000);
}

TEST(Observer, KnowsProcessorTimeWithoutNvml) {
  const observation seen = observe_iterations(observer(1, std::nullopt, "no NVML"), 1, 1);
  EXPECT_EQ(seen.missing_reason, "no NVML");
  EXPECT_FALSE(seen.before || seen.after || seen.energy_uj);
  EXPECT_GE(seen.host_cpu, 45'000'000);
}

TEST(Observer, SaysThatNothingFollowed) {
  observer seen(2, fake_gpu());
  for (const std::uint32_t done : {0U, 1U, 2U}) seen.on_iterations_done(done);
  EXPECT_EQ(seen.result().missing_reason, "no iterations followed the timed ones");
  EXPECT_FALSE(seen.result().host_cpu);
  EXPECT_TRUE(seen.result().before && seen.result().after);
}

}  // namespace
}  // namespace um
