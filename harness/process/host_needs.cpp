#include "harness/process/host_needs.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "measure/host_memory.hpp"

namespace um {
host_memory host_memory_now() {
  host_memory m;
  m.available = meminfo("MemAvailable").value_or(0);
  m.swap_free = meminfo("SwapFree");
  m.cgroup_left = own_cgroup_memory().available;
  rlimit pinned{};
  if (getrlimit(RLIMIT_MEMLOCK, &pinned) == 0 && pinned.rlim_cur != RLIM_INFINITY)
    m.pin_limit = pinned.rlim_cur;
  return m;
}

byte_count usable_host_bytes(const host_memory& m) {
  const byte_count usable = std::min(m.available, m.cgroup_left.value_or(m.available));
  return usable - std::min(usable / 10, byte_count{8} << 30);
}

byte_count host_bytes_needed(byte_count pinned, byte_count managed, byte_count device_arena,
                             byte_count budget) {
  const byte_count room = budget - std::min(budget, device_arena);
  return pinned + (managed - std::min(managed, room));
}

byte_count host_bytes_needed(const execution_plan& plan) {
  return host_bytes_needed(plan.pinned_arena_bytes, plan.managed_arena_bytes, plan.device_arena_bytes,
                           plan.budget);
}

std::optional<std::string> shortage_text(byte_count needed, byte_count pinned, const host_memory& m) {
  if (needed <= usable_host_bytes(m)) return std::nullopt;
  std::string text =
      fmt::format("needs {} of host memory ({} pinned) and may take {}: {} available", to_text(needed),
                  to_text(pinned), to_text(usable_host_bytes(m)), to_text(m.available));
  if (m.cgroup_left) text += fmt::format(", {} left to its control group", to_text(*m.cgroup_left));
  text += ", less a tenth kept free";
  if (m.swap_free.value_or(0) > 0) text += fmt::format("; {} of swap do not count", to_text(*m.swap_free));
  if (m.pin_limit && pinned > *m.pin_limit)
    text += fmt::format("; RLIMIT_MEMLOCK is {}", to_text(*m.pin_limit));
  return text;
}

}  // namespace um
