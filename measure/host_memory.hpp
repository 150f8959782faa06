// Host memory available to this process: by the kernel's own account, and by that of the process's control
// group (version 2 or 1), which may have less. `root` is where /proc and /sys are looked up.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "core/units.hpp"

namespace um {

// Of a line "NAME:   123 kB" of /proc/meminfo; nothing if there is none.
std::optional<byte_count> meminfo(std::string_view name, const std::filesystem::path& root = "/");

// The folder of the own group of version 2, below /sys/fs/cgroup; nothing where there is none.
std::optional<std::filesystem::path> own_cgroup();

struct cgroup_memory {
  std::optional<byte_count> limit;      // the tightest of the group and those above it; nothing: none
  std::optional<byte_count> available;  // until the nearest limit
};
cgroup_memory own_cgroup_memory(const std::filesystem::path& root = "/");
// Of version 2; `top` is where the hierarchy begins, and `group` lies in it.
cgroup_memory memory_of_cgroup(const std::filesystem::path& group, const std::filesystem::path& top);

}  // namespace um
