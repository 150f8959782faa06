#include "core/trace.hpp"

namespace um {

std::optional<double> amplification(const counters& moved, byte_count touched) {
  if (touched == 0) return std::nullopt;
  byte_count sum = 0;
  for (const auto& part :
       {moved.fault_to_device_bytes, moved.prefetch_to_device_bytes, moved.copy_to_device_bytes,
        moved.driver_evict_bytes, moved.plan_evict_bytes, moved.copy_to_host_bytes}) {
    if (!part) return std::nullopt;
    sum += *part;
  }
  return static_cast<double>(sum) / static_cast<double>(touched);
}

}  // namespace um
