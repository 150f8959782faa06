// What a traced program did, without CUPTI's types; input of a recorder. Times are in nanoseconds on one
// clock. A device is a GPU's number or `host`.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace um::tracing {

inline constexpr std::uint32_t host = 0xFFFFFFFF;

// Why managed memory moved, in CUPTI's order (CUpti_ActivityUnifiedMemoryMigrationCause).
enum class cause : std::uint8_t {
  unknown,
  user,    // prefetch or advice
  demand,  // a fault needed it
  tree,    // the driver moved it together with a faulted page
  eviction,
  access_counter
};

enum class access : std::uint8_t { unknown, read, write, atomic, prefetch };

struct migration {
  nanoseconds begin = 0, end = 0;
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t source = host, destination = host;
  cause why = cause::unknown;
};

struct gpu_fault {
  nanoseconds begin = 0, end = 0;         // from the fault, or the beginning of its service, to the replay
  std::uint64_t address = 0, groups = 1;  // groups: faults that CUPTI combined
  std::uint32_t gpu = 0;
  access access_kind = access::unknown;
};

struct cpu_fault {
  nanoseconds at = 0;
  std::uint64_t address = 0, program_counter = 0;
  access access_kind = access::unknown;
};

enum class contention : std::uint8_t { thrashing, throttling, remote_map };
// Contention: several processors access the same memory, or a GPU maps memory that is elsewhere.
struct contention_event {
  nanoseconds at = 0;
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t device = host;
  contention what = contention::thrashing;
};

struct kernel {
  nanoseconds begin = 0, end = 0;
  std::uint32_t gpu = 0, stream = 0;
  std::string_view name;
};

// An explicit copy or memset.
struct copy {
  nanoseconds begin = 0, end = 0;
  std::uint64_t bytes = 0;
  std::uint32_t gpu = 0;
  std::string_view direction;  // "host_to_device" ...
};

struct allocation {
  nanoseconds at = 0;
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t device = host;
  std::string_view memory;           // "managed", "device", "pinned" ...
  std::vector<std::string> callers;  // innermost first: module+0xoffset
};

struct release {
  nanoseconds at = 0;
  std::uint64_t address = 0;
};

// A prefetch, advice or discard of managed memory.
struct hint {
  nanoseconds at = 0, until = 0;
  std::string_view call;  // "prefetch", "read_mostly", "preferred_location" ...
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t device = host;
  std::vector<std::string> callers;
};

// A range of time that the program names (NVTX).
struct range {
  nanoseconds begin = 0, end = 0;
  std::string_view name;
};

// A record of one migration, fault or conflict on managed memory, in the layout that CUPTI's records of kind
// UNIFIED_MEMORY_COUNTER share since CUDA 12 (CUpti_ActivityUnifiedMemoryCounter2 and 3). Needs no CUPTI.

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
  static constexpr std::uint32_t of_kind = 25;  // CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER
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
