#include "core/trace.hpp"

#include <initializer_list>

namespace um {
namespace {

std::optional<byte_count> sum_of(std::initializer_list<std::optional<byte_count>> parts) {
  byte_count sum = 0;
  for (const auto& part : parts) {
    if (!part) return std::nullopt;
    sum += *part;
  }
  return sum;
}

}  // namespace

std::vector<nanoseconds> durations_of(const std::vector<trace>& iterations) {
  std::vector<nanoseconds> times;
  for (const trace& t : iterations) times.push_back(t.duration);
  return times;
}

std::optional<byte_count> bytes_to_device(const counters& c) {
  return sum_of({c.fault_to_device_bytes, c.prefetch_to_device_bytes, c.copy_to_device_bytes});
}
std::optional<byte_count> bytes_to_host(const counters& c) {
  return sum_of({c.driver_evict_bytes, c.plan_evict_bytes, c.copy_to_host_bytes});
}

std::optional<double> amplification(const counters& moved, byte_count touched) {
  const auto sum = sum_of({bytes_to_device(moved), bytes_to_host(moved)});
  if (touched == 0 || !sum) return std::nullopt;
  return static_cast<double>(*sum) / static_cast<double>(touched);
}

}  // namespace um
