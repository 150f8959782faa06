#include "measure/limits.hpp"

#include <algorithm>

#include "core/errors.hpp"
#include "measure/host_memory.hpp"

namespace um::measure {
namespace {

void require_below_limit(const char* where, byte_count asked, byte_count held, byte_count limit) {
  if (asked <= limit && held <= limit - asked) return;
  throw out_of_memory("needs " + to_text(asked) + " of " + where + " memory beside the " + to_text(held) +
                      " held, but microbenchmarks keep below " + to_text(limit));
}

}  // namespace

memory_limits limits_of(byte_count free_device, byte_count available_host) {
  return {free_device / 5 * 4, available_host / 2};
}

std::optional<byte_count> available_host_bytes(const std::filesystem::path& root) {
  const auto available = meminfo("MemAvailable", root);
  if (!available) return {};
  return std::min(*available, own_cgroup_memory(root).available.value_or(*available));
}

memory_ledger::lease memory_ledger::grant(footprint what) {
  require_below_limit("device", what.device, granted_.device, limits_.device);
  require_below_limit("host", what.host, granted_.host, limits_.host);
  granted_.device += what.device;
  granted_.host += what.host;
  return {*this, what};
}

void memory_ledger::give_back(footprint what) {
  granted_.device -= what.device;
  granted_.host -= what.host;
}

}  // namespace um::measure
