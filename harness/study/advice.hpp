// Recommends a memory technique from the records of those that were tried.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.hpp"
#include "core/planner.hpp"
#include "harness/study/environment.hpp"
#include "harness/study/record.hpp"

namespace um {

// How a program must change for a technique, as a phrase.
std::string_view program_changes_for(memory_technique technique);
// Names of the strategies that are tried by default, least demanding technique first.
std::vector<std::string_view> advised_strategies();

// Features of managed memory on a system.
struct managed_support {
  bool can_oversubscribe = true;  // more managed memory may be in use than the device has
  bool is_coherent =
      false;           // the GPU uses the CPU's page tables (ATS), so kernels can use memory from malloc
  std::string reason;  // reason why it cannot oversubscribe
};
enum class system_kind : std::uint8_t { linux_native, wsl2, windows };
template <>
inline constexpr std::array enum_names<system_kind>{"linux"sv, "wsl2"sv, "windows"sv};
// The kind of system of a kernel release such as "5.15.167.4-microsoft-standard-WSL2".
system_kind system_of_kernel(std::string_view kernel);
managed_support managed_support_of(system_kind system, const machine& simulated);
managed_support managed_support_of(system_kind system, const gpu_facts& gpu);

struct tried_strategy {
  memory_technique technique = memory_technique::in_core;
  record result;
};

struct memory_advice {
  std::vector<tried_strategy> tried;  // one strategy per technique
  std::optional<double> in_core_ns;
  bool has_in_core_run = true;  // false: in_core_ns is the sum of the operators' times
  managed_support support;
};

// The advice that follows from the tried strategies. `in_core` is the record of the baseline with the whole
// memory of the device.
memory_advice make_advice(std::vector<tried_strategy> tried, const record& in_core, managed_support managed);

// The fastest strategy or, if several are within 2 % of it, the one with the least demanding technique;
// nullptr if none works.
const tried_strategy* recommended_strategy(const memory_advice& a);

// A paragraph and a table: strategies by cost, those that do not work with their reason. The text begins with
// `setting`.
std::string advice_text(const memory_advice& a, const std::string& setting);

}  // namespace um
