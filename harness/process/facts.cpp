#include "harness/process/facts.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "measure/host_memory.hpp"

namespace um {
namespace {

std::optional<std::string> first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

// The text after `label` and its separator, on the first line that starts with it.
std::optional<std::string> value_of_label(const std::filesystem::path& file, std::string_view label) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(label)) continue;
    const std::size_t begin = line.find_first_not_of(" \t:=\"", label.size());
    const std::size_t end = line.find_last_not_of(" \t\"");
    if (begin != std::string::npos && end >= begin) return line.substr(begin, end - begin + 1);
  }
  return std::nullopt;
}

// The word in brackets of "always [madvise] never".
std::optional<std::string> bracketed_word(const std::optional<std::string>& line) {
  const std::size_t begin = line ? line->find('[') : std::string::npos;
  const std::size_t end = begin == std::string::npos ? begin : line->find(']', begin);
  if (end == std::string::npos) return std::nullopt;
  return line->substr(begin + 1, end - begin - 1);
}

std::string no_value_reason(std::string_view file) {
  return fmt::format("/{} does not tell", file);
}

std::size_t count_entries(const std::filesystem::path& folder, std::string_view prefix) {
  std::error_code error;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    count += entry.path().filename().string().starts_with(prefix);
  }
  return count;
}

}  // namespace

fact_sheet host_facts_in(const std::filesystem::path& root) {
  constexpr const char* governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
  constexpr const char* huge_pages = "sys/kernel/mm/transparent_hugepage/enabled";
  constexpr const char* nodes = "sys/devices/system/node";
  fact_sheet facts;
  facts.add("governor", first_line(root / governor), no_value_reason(governor));
  facts.add("huge_pages", bracketed_word(first_line(root / huge_pages)), no_value_reason(huge_pages));
  facts.add("swap", value_of_label(root / "proc/meminfo", "SwapTotal"), no_value_reason("proc/meminfo"));
  const std::size_t count = count_entries(root / nodes, "node");
  facts.add("numa_nodes", count > 0 ? std::optional(std::to_string(count)) : std::nullopt,
            no_value_reason(nodes));
  facts.known["iommu"] = count_entries(root / "sys/class/iommu", "") > 0 ? "on" : "off";
  std::optional<std::string> virtual_machine;
  if (const auto flags = value_of_label(root / "proc/cpuinfo", "flags")) {
    virtual_machine = (*flags + " ").find(" hypervisor ") != std::string::npos ? "yes" : "no";
  }
  facts.add("virtual_machine", virtual_machine, no_value_reason("proc/cpuinfo"));
  return facts;
}

fact_sheet gpu_facts_in(const std::filesystem::path& root, const std::string& pci_bus_id) {
  constexpr const char* devices = "sys/bus/pci/devices";
  constexpr const char* module = "proc/driver/nvidia/version";
  fact_sheet facts;
  for (const auto& [name, file] : {std::pair{"numa_node", "numa_node"},
                                   {"pcie_most_speed", "max_link_speed"},
                                   {"pcie_most_width", "max_link_width"},
                                   {"iommu_domain", "iommu_group/type"}}) {
    facts.add(name, first_line(root / devices / pci_bus_id / file),
              no_value_reason(fmt::format("{}/*/{}", devices, file)));
  }
  std::optional<std::string> flavour;
  if (const auto line = first_line(root / module)) {
    flavour = line->find("Open Kernel Module") == std::string::npos ? "proprietary" : "open";
  }
  facts.add("kernel_module", flavour, no_value_reason(module));
  return facts;
}

host_facts facts_of_host() {
  host_facts host;
  host.os = value_of_label("/etc/os-release", "PRETTY_NAME");
  utsname name{};
  if (uname(&name) == 0) host.kernel = fmt::format("{} {}", name.sysname, name.release);
  host.cpu = value_of_label("/proc/cpuinfo", "model name");
  if (const unsigned cores = std::thread::hardware_concurrency(); cores > 0) host.cores = cores;
  host.memory_bytes = meminfo("MemTotal");
  host.cgroup_limit_bytes = own_cgroup_memory().limit;
  host.facts = host_facts_in("/");
  if (!host.cpu) host.facts.missing["cpu"] = no_value_reason("proc/cpuinfo");
  return host;
}

std::optional<named_facts> uvm_parameters() {
  std::error_code error;
  named_facts parameters;
  std::filesystem::directory_iterator files("/sys/module/nvidia_uvm/parameters", error);
  if (error) return std::nullopt;
  for (const auto& file : files) {
    if (const auto value = first_line(file.path())) parameters[file.path().filename().string()] = *value;
  }
  return parameters;
}

}  // namespace um
