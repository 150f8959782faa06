#include "measure/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace um {
namespace {

namespace fs = std::filesystem;

constexpr const char* groups_folder = "sys/fs/cgroup";

// Returns nothing if the file is missing or says "max", which means no limit.
std::optional<byte_count> number_in(const fs::path& path) {
  std::ifstream file(path);
  byte_count value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

void take_smaller(std::optional<byte_count>& least, const std::optional<byte_count>& value) {
  if (value) least = std::min(least.value_or(*value), *value);
}

// Path of this process's control group below the mount point. Version 2 has one group for all controllers,
// under an empty controller name.
fs::path group_of(const fs::path& root, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    if (controllers.find(',' + controller + ',') == std::string::npos) continue;
    return fs::path(line.substr(second + 1)).relative_path();
  }
  return {};
}

struct cgroup_file_names {
  const char *limit, *used;
};
constexpr cgroup_file_names version_2{"memory.max", "memory.current"};
constexpr cgroup_file_names version_1{"memory.limit_in_bytes", "memory.usage_in_bytes"};

// Inside a container `group` may be the name on the host, which does not exist there. The mount then shows
// the process's group at its top.
cgroup_memory memory_from(const fs::path& group, const fs::path& top, const cgroup_file_names& names) {
  constexpr byte_count no_limit_from = byte_count{1} << 60;  // version 1 writes such a number for "no limit"
  cgroup_memory memory;
  for (fs::path folder = group;; folder = folder.parent_path()) {
    const auto limit = number_in(folder / names.limit);
    if (limit && *limit < no_limit_from) {
      const byte_count used = number_in(folder / names.used).value_or(0);
      take_smaller(memory.limit, limit);
      take_smaller(memory.available, *limit - std::min(*limit, used));
    }
    if (folder == top || folder == folder.root_path() || folder.empty()) return memory;
  }
}

}  // namespace

std::optional<byte_count> meminfo(std::string_view wanted, const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string name, unit;
  for (byte_count value = 0; file >> name >> value;) {
    std::getline(file, unit);
    if (std::string_view(name) == std::string(wanted) + ':') return value * KiB;
  }
  return std::nullopt;
}

std::optional<fs::path> own_cgroup() {
  const fs::path top = fs::path("/") / groups_folder, own = group_of("/", "");
  std::error_code error;
  if (fs::exists(top / own / "cgroup.procs", error)) return top / own;
  if (fs::exists(top / "cgroup.procs", error)) return top;
  return std::nullopt;
}

cgroup_memory own_cgroup_memory(const fs::path& root) {
  const fs::path top = root / groups_folder, top_1 = top / "memory";
  const auto below = [](const fs::path& where, const fs::path& group) {
    return group.empty() ? where : where / group;
  };
  cgroup_memory memory = memory_from(below(top, group_of(root, "")), top, version_2);
  const cgroup_memory old = memory_from(below(top_1, group_of(root, "memory")), top_1, version_1);
  take_smaller(memory.limit, old.limit);
  take_smaller(memory.available, old.available);
  return memory;
}

}  // namespace um
