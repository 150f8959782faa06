#include "harness/environment.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/gpu.hpp"

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

// The limit of version 2, then of version 1; a version-1 value beyond any memory means none.
std::optional<byte_count> cgroup_limit() {
  constexpr byte_count none_from = byte_count{1} << 60;
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto line = first_line(file);
    const auto bytes = line ? parse_bytes(*line) : std::nullopt;
    if (bytes && *bytes < none_from) return bytes;
  }
  return std::nullopt;
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
