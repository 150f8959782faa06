// Memory of the host: the needs of a plan, and what is available.
#pragma once

#include <optional>
#include <string>

#include "core/lower.hpp"

namespace um {

struct host_memory {
  byte_count available = 0;                    // memory that is available without swapping (MemAvailable)
  std::optional<byte_count> swap_free = {};    // reported, but never counted as usable
  std::optional<byte_count> cgroup_left = {};  // bytes left until the control group's limit
  std::optional<byte_count> pin_limit = {};    // RLIMIT_MEMLOCK
};
host_memory host_memory_now();

// Bytes that a run may use: the minimum of `available` and `cgroup_left`, minus a tenth (at most 8 GiB) for
// other programs.
byte_count usable_host_bytes(const host_memory& m);

// Bytes of pinned data, and of managed data that does not fit the device.
byte_count host_bytes_needed(byte_count pinned, byte_count managed, byte_count device_arena,
                             byte_count budget);
byte_count host_bytes_needed(const execution_plan& plan);

// Why `needed` bytes of host memory, `pinned` of them pinned, are not available; nothing if they are.
std::optional<std::string> shortage_text(byte_count needed, byte_count pinned, const host_memory& m);

}  // namespace um
