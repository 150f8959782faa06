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

// How a program must change for it, as a phrase.
std::string_view program_changes_for(memory_technique way);
// Names of the strategies to try unasked, those first whose way asks least.
std::vector<std::string_view> advised_strategies();

// Features of managed memory on a system.
struct managed_support {
  bool oversubscribes = true;  // more of it may be in use than the device has
  bool coherent = false;       // the GPU uses the CPU's page tables (ATS): malloc's memory is its own as well
  std::string why;             // why it does not oversubscribe
};
enum class system_kind : std::uint8_t { linux_native, wsl2, windows };
// Of a kernel's release, such as "5.15.167.4-microsoft-standard-WSL2".
system_kind system_of(std::string_view kernel);
managed_support managed_support_of(system_kind system, const machine& simulated);
managed_support managed_support_of(system_kind system, const gpu_facts& gpu);

struct tried_way {
  memory_technique technique = memory_technique::in_core;
  record r;
};

struct advice_given {
  std::vector<tried_way> tried;  // one strategy each
  std::optional<double> in_core_ns;
  bool in_core_ran = true;  // false: in_core_ns is the sum of its operators' times
  managed_support managed;
};

// What `tried` says of the setting; `in_core` is the record of the baseline with the whole device to itself.
advice_given advice_from(std::vector<tried_way> tried, const record& in_core, managed_support managed);

// The fastest or, where several are within 2 % of it, the one whose way asks least; nullptr if none works.
const tried_way* recommended_by(const advice_given& a);

// A paragraph and a table, ways by their cost, those that do not work with their reason; `setting` is the
// first words.
std::string text_of(const advice_given& a, const std::string& setting);

}  // namespace um
