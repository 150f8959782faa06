#include "harness/process/cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace um {
namespace {

namespace fs = std::filesystem;

const fs::path top_folder = "/sys/fs/cgroup";

// Nothing for "max", which is no limit, and where the file is missing.
std::optional<byte_count> number_in(const fs::path& path) {
  std::ifstream file(path);
  byte_count value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

void tighten(std::optional<byte_count>& least, byte_count value) {
  least = std::min(least.value_or(value), value);
}

}  // namespace

std::optional<fs::path> own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    const fs::path folder = top_folder / line.substr(4);
    std::error_code error;
    // Inside a container the path may be the host's; the mount then shows the own group at its top.
    if (fs::exists(folder / "cgroup.procs", error)) return folder;
    if (fs::exists(top_folder / "cgroup.procs", error)) return top_folder;
  }
  return std::nullopt;
}

cgroup_memory memory_of_cgroup(const fs::path& group, const fs::path& top) {
  cgroup_memory memory;
  for (fs::path folder = group;; folder = folder.parent_path()) {
    if (const auto limit = number_in(folder / "memory.max")) {
      tighten(memory.limit, *limit);
      const byte_count used = number_in(folder / "memory.current").value_or(0);
      tighten(memory.left, *limit - std::min(*limit, used));
    }
    if (folder == top || folder == folder.root_path() || folder.empty()) break;
  }
  return memory;
}

cgroup_memory own_cgroup_memory() {
  const auto folder = own_cgroup();
  return folder ? memory_of_cgroup(*folder, top_folder) : cgroup_memory{};
}

}  // namespace um
