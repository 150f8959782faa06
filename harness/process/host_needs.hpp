// Memory of the host: what a plan needs of it, and what there is.
#pragma once

#include <optional>
#include <string>

#include "core/lower.hpp"

namespace um {

struct host_memory {
  byte_count available = 0;                    // memory that is available without swapping (MemAvailable)
  std::optional<byte_count> swap_free = {};    // reported, but never counted as usable
  std::optional<byte_count> cgroup_left = {};  // until the control group's limit
  std::optional<byte_count> may_pin = {};      // RLIMIT_MEMLOCK
};
host_memory host_memory_now();

// What a run may take: the least of the two, less a tenth (at most 8 GiB) for everything else.
byte_count usable(const host_memory& m);

// Pinned data, and managed data that the device has no room for.
byte_count host_bytes_needed(byte_count pinned, byte_count managed, byte_count device_arena,
                             byte_count budget);
byte_count host_bytes_needed(const execution_plan& plan);

// Why `needed` bytes of host memory, `pinned` of them pinned, are not to be had; nothing if they are.
std::optional<std::string> shortage(byte_count needed, byte_count pinned, const host_memory& m);

}  // namespace um
