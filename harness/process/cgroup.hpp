// The control group (version 2) of this process, which may have less memory than the machine.
#pragma once

#include <filesystem>
#include <optional>

#include "core/units.hpp"

namespace um {

// Its folder below /sys/fs/cgroup; nothing where there is none.
std::optional<std::filesystem::path> own_cgroup();

struct cgroup_memory {
  std::optional<byte_count> limit;  // the tightest of the group and those above it; nothing: none
  std::optional<byte_count> left;   // until the nearest limit
};
// `top` is where the hierarchy begins; `group` lies in it.
cgroup_memory memory_of_cgroup(const std::filesystem::path& group, const std::filesystem::path& top);
cgroup_memory own_cgroup_memory();

}  // namespace um
