#include "measure/limits.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include "core/errors.hpp"

namespace um::measure {
namespace {

// The number behind `label`, or the first number of a file without labels.
std::optional<byte_count> number_in(const std::filesystem::path& file, const std::string& label = {}) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    if (!label.empty() && word != label) continue;
    if (!label.empty()) in >> word;
    if (word.empty() || word.find_first_not_of("0123456789") != std::string::npos) return {};
    return parse_bytes(word);
  }
  return {};
}

std::optional<byte_count> left_by(const std::filesystem::path& limit, const std::filesystem::path& used) {
  const auto most = number_in(limit), taken = number_in(used);
  if (!most || !taken) return {};
  return *most - std::min(*most, *taken);
}

// Where this process's control group lies below the mount point; version 2 has one for all
// controllers, and calls it nothing.
std::filesystem::path group_of(const std::filesystem::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    if (controllers.find(',' + controller + ',') == std::string::npos) continue;
    return std::filesystem::path(line.substr(second + 1)).relative_path();
  }
  return {};
}

// What the group and those above it leave. Inside a container the group's name may be the host's; the
// mount then shows the own one at its top.
byte_count least_left(byte_count least, const std::filesystem::path& top, std::filesystem::path group,
                      const char* limit, const char* used) {
  for (;; group = group.parent_path()) {
    if (const auto left = left_by(top / group / limit, top / group / used)) least = std::min(least, *left);
    if (group.empty()) return least;
  }
}

void refuse(const char* where, byte_count asked, byte_count held, byte_count limit) {
  if (asked <= limit && held <= limit - asked) return;
  throw out_of_memory("needs " + to_text(asked) + " of " + where + " memory beside the " + to_text(held) +
                      " held, but microbenchmarks keep below " + to_text(limit));
}

}  // namespace

memory_limits limits_of(byte_count free_device, byte_count available_host) {
  return {free_device / 5 * 4, available_host / 2};
}

std::optional<byte_count> available_host_bytes(const std::filesystem::path& root) {
  auto least = number_in(root / "proc/meminfo", "MemAvailable:");
  if (!least) return {};
  *least *= KiB;
  const std::filesystem::path groups = root / "sys/fs/cgroup";
  *least = least_left(*least, groups, group_of(root, ""), "memory.max", "memory.current");
  *least = least_left(*least, groups / "memory", group_of(root, "memory"), "memory.limit_in_bytes",
                      "memory.usage_in_bytes");
  return least;
}

memory_ledger::lease memory_ledger::take(footprint what) {
  refuse("device", what.device, held_.device, limits_.device);
  refuse("host", what.host, held_.host, limits_.host);
  held_.device += what.device;
  held_.host += what.host;
  return {*this, what};
}

void memory_ledger::give_back(footprint what) {
  held_.device -= what.device;
  held_.host -= what.host;
}

}  // namespace um::measure
