// Host memory available to this process, from /proc/meminfo and from the process's control group (version 2
// or 1), whose limit may be lower. /proc and /sys are read below `root`.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "core/units.hpp"

namespace um {

// Returns the bytes of a line "NAME: 123 kB" of /proc/meminfo, or nothing if there is none.
std::optional<byte_count> meminfo(std::string_view name, const std::filesystem::path& root = "/");

// The folder of this process's group (version 2), below /sys/fs/cgroup; nothing without one.
std::optional<std::filesystem::path> own_cgroup();

struct cgroup_memory {
  std::optional<byte_count> limit;      // the tightest limit of the group and its parents; nothing: none
  std::optional<byte_count> available;  // bytes left until the nearest limit
};
cgroup_memory own_cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace um
