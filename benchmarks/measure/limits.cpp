#include "benchmarks/measure/limits.hpp"

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
  for (const auto& left :
       {left_by(groups / "memory.max", groups / "memory.current"),
        left_by(groups / "memory/memory.limit_in_bytes", groups / "memory/memory.usage_in_bytes")}) {
    if (left) least = std::min(*least, *left);
  }
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
