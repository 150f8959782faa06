// A record of one migration, fault or conflict on managed memory, in the layout that CUPTI's records of kind
// UNIFIED_MEMORY_COUNTER share since CUDA 12 (CUpti_ActivityUnifiedMemoryCounter2 and 3). Needs no CUPTI.
#pragma once

#include <cstdint>
#include <cstring>

namespace um::tracing {

// CUpti_ActivityUnifiedMemoryCounterKind
enum class counter_kind : std::uint32_t {
  bytes_to_device = 1,
  bytes_to_host = 2,
  cpu_page_fault = 3,
  gpu_page_fault = 4,
  thrashing = 5,
  throttling = 6,
  remote_map = 7,
  bytes_between_devices = 8
};

struct unified_memory_record {
  static constexpr std::uint32_t of_kind = 25;
  std::uint32_t kind = of_kind;
  counter_kind counter{};
  std::uint64_t value = 0, start = 0, end = 0, address = 0;
  std::uint32_t source = 0, destination = 0, stream = 0, process = 0, flags = 0, padding = 0;
};

// Copies the fields from a record of that kind, which may be longer.
inline unified_memory_record unified_memory_record_at(const void* record) {
  unified_memory_record r;
  std::memcpy(&r, record, sizeof(r));
  return r;
}

}  // namespace um::tracing
