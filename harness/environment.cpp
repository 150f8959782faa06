#include "harness/environment.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/cgroup.hpp"
#include "harness/gpu.hpp"
#include "harness/suggest.hpp"

namespace um {
namespace {

std::optional<std::string> first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

// The text behind `label` and what separates them, on the first line that starts with it.
std::optional<std::string> labelled(const std::filesystem::path& file, std::string_view label) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(label)) continue;
    const std::size_t begin = line.find_first_not_of(" \t:=\"", label.size());
    const std::size_t end = line.find_last_not_of(" \t\"");
    if (begin != std::string::npos && end >= begin) return line.substr(begin, end - begin + 1);
  }
  return std::nullopt;
}

std::optional<byte_count> memory_bytes() {
  const auto total = labelled("/proc/meminfo", "MemTotal");
  return total ? parse_bytes(total->substr(0, total->find(' ')) + "KiB") : std::nullopt;
}

// The limit of the own group, or that of version 1, where a value beyond any memory means none.
std::optional<byte_count> cgroup_limit() {
  constexpr byte_count none_from = byte_count{1} << 60;
  if (const auto limit = own_cgroup_memory().limit) return limit;
  const auto line = first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const auto bytes = line ? parse_bytes(*line) : std::nullopt;
  return bytes && *bytes < none_from ? bytes : std::nullopt;
}

// The word in brackets of "always [madvise] never".
std::optional<std::string> chosen_word(const std::optional<std::string>& line) {
  const std::size_t begin = line ? line->find('[') : std::string::npos;
  const std::size_t end = begin == std::string::npos ? begin : line->find(']', begin);
  if (end == std::string::npos) return std::nullopt;
  return line->substr(begin + 1, end - begin - 1);
}

void put_fact(named_facts& facts, const char* name, const std::optional<std::string>& value) {
  if (value && !value->empty()) facts[name] = one_line(*value);
}

std::size_t entries(const std::filesystem::path& folder, std::string_view prefix) {
  std::error_code error;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    count += entry.path().filename().string().starts_with(prefix);
  }
  return count;
}

host_facts collect_host() {
  host_facts host;
  host.os = labelled("/etc/os-release", "PRETTY_NAME");
  utsname name{};
  if (uname(&name) == 0) host.kernel = fmt::format("{} {}", name.sysname, name.release);
  host.cpu = labelled("/proc/cpuinfo", "model name");
  if (const unsigned cores = std::thread::hardware_concurrency(); cores > 0) host.cores = cores;
  host.memory_bytes = memory_bytes();
  host.cgroup_limit_bytes = cgroup_limit();
  host.facts = host_facts_in("/");
  return host;
}

std::optional<std::map<std::string, std::string>> uvm_parameters() {
  std::error_code error;
  std::map<std::string, std::string> parameters;
  std::filesystem::directory_iterator files("/sys/module/nvidia_uvm/parameters", error);
  if (error) return std::nullopt;
  for (const auto& file : files) {
    if (const auto value = first_line(file.path())) parameters[file.path().filename().string()] = *value;
  }
  return parameters;
}

}  // namespace

named_facts host_facts_in(const std::filesystem::path& root) {
  named_facts facts;
  put_fact(facts, "governor", first_line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  put_fact(facts, "huge_pages", chosen_word(first_line(root / "sys/kernel/mm/transparent_hugepage/enabled")));
  put_fact(facts, "swap", labelled(root / "proc/meminfo", "SwapTotal"));
  if (const auto nodes = entries(root / "sys/devices/system/node", "node")) {
    facts["numa_nodes"] = std::to_string(nodes);
  }
  facts["iommu"] = entries(root / "sys/class/iommu", "") > 0 ? "on" : "off";
  if (const auto flags = labelled(root / "proc/cpuinfo", "flags")) {
    facts["virtual_machine"] = (*flags + " ").find(" hypervisor ") != std::string::npos ? "yes" : "no";
  }
  return facts;
}

named_facts gpu_facts_in(const std::filesystem::path& root, const std::string& pci_bus_id) {
  named_facts facts;
  const std::filesystem::path device = root / "sys/bus/pci/devices" / pci_bus_id;
  put_fact(facts, "numa_node", first_line(device / "numa_node"));
  put_fact(facts, "pcie_most_speed", first_line(device / "max_link_speed"));
  put_fact(facts, "pcie_most_width", first_line(device / "max_link_width"));
  put_fact(facts, "iommu_domain", first_line(device / "iommu_group/type"));
  if (const auto line = first_line(root / "proc/driver/nvidia/version")) {
    facts["kernel_module"] = line->find("Open Kernel Module") == std::string::npos ? "proprietary" : "open";
  }
  return facts;
}

environment collect_environment(std::optional<gpu_facts> gpu) {
  environment e;
  e.umbench = version_text();
  e.compiler = compiler_text();
  e.has_cuda_backend = built_with_cuda();
  e.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  e.host = collect_host();
  e.gpu = std::move(gpu);
  e.nvidia_uvm = uvm_parameters();
  return e;
}

}  // namespace um
