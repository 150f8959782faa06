// Host memory available to this process: by the kernel's own account, and by that of the process's control
// group (version 2 or 1), which may have less. `root` is where /proc and /sys are looked up.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "core/units.hpp"

namespace um {

// The value of a line "NAME:   123 kB" of /proc/meminfo; nothing without one.
std::optional<byte_count> meminfo(std::string_view name, const std::filesystem::path& root = "/");

// The folder of this process's group (version 2), below /sys/fs/cgroup; nothing without one.
std::optional<std::filesystem::path> own_cgroup();

struct cgroup_memory {
  std::optional<byte_count> limit;      // the tightest limit of the group and its parents; nothing: none
  std::optional<byte_count> available;  // bytes left until the nearest limit
};
cgroup_memory own_cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace um
