// The trace of one iteration, measured or simulated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/names.hpp"
#include "core/units.hpp"

namespace um {

// The three resources that work runs on. Work in one lane runs in order.
enum class lane : std::uint8_t { compute, to_device, to_host };
template <>
inline constexpr std::array enum_names<lane>{"compute"sv, "to_device"sv, "to_host"sv};
inline constexpr std::size_t lane_count = all_values<lane>().size();

struct span {
  std::uint32_t step = 0;  // index into execution_plan::steps
  lane in_lane = lane::compute;
  nanoseconds begin = 0, end = 0;  // time since the iteration began
};

// The driver's work and the traffic on the link, by cause; nothing if not observed. The simulator counts as
// faults the 64 KiB granules that kernels faulted on, each once per batch. CUPTI counts those on each batch's
// first page.
struct counters {
  std::optional<std::uint64_t> faults;                 // faults raised by kernels and serviced by the driver
  std::optional<std::uint64_t> fault_batches;          // batches of faults, each followed by one replay
  std::optional<byte_count> fault_to_device_bytes;     // moved because a kernel touched them
  std::optional<byte_count> prefetch_to_device_bytes;  // moved by prefetch, managed memory
  std::optional<byte_count> copy_to_device_bytes;      // explicit copies, staged memory
  std::optional<byte_count> driver_evict_bytes;        // moved out by the driver's eviction
  std::optional<byte_count> plan_evict_bytes;          // moved out by the plan, managed memory
  std::optional<byte_count> copy_to_host_bytes;        // explicit copies, staged memory
  std::optional<std::uint64_t> evicted_blocks;         // 2 MiB blocks the driver evicted
  std::optional<byte_count> remote_bytes;              // read or written by kernels over the link
};

struct counter_field {
  const char* name;  // name in records
  std::optional<std::uint64_t> counters::* member;
};
inline constexpr std::array<counter_field, 10> counter_fields{{
    {"faults", &counters::faults},
    {"fault_batches", &counters::fault_batches},
    {"fault_to_device_bytes", &counters::fault_to_device_bytes},
    {"prefetch_to_device_bytes", &counters::prefetch_to_device_bytes},
    {"copy_to_device_bytes", &counters::copy_to_device_bytes},
    {"driver_evict_bytes", &counters::driver_evict_bytes},
    {"plan_evict_bytes", &counters::plan_evict_bytes},
    {"copy_to_host_bytes", &counters::copy_to_host_bytes},
    {"evicted_blocks", &counters::evicted_blocks},
    {"remote_bytes", &counters::remote_bytes},
}};

// Bytes moved in that direction by faults, prefetches, evictions and copies; nothing if one of them was not
// observed.
std::optional<byte_count> bytes_to_device(const counters& c);
std::optional<byte_count> bytes_to_host(const counters& c);

// Ratio of the bytes moved in both directions to the bytes of all tensors that operators touch: 2 if
// everything comes and leaves once. Access over the link does not count. Nothing if a counter was not
// observed or no tensor is touched.
std::optional<double> amplification(const counters& moved, byte_count touched);

struct memory_sample {
  nanoseconds time = 0;  // since the iteration began
  byte_count bytes = 0;  // device memory in use, of any kind
};

struct trace {
  nanoseconds duration = 0;
  std::vector<span> spans;                    // empty unless asked for
  std::vector<memory_sample> memory_samples;  // empty unless asked for
  counters counts;
};
std::vector<nanoseconds> durations_of(const std::vector<trace>& iterations);

// Bounds on the time of an iteration, over uncertain figures and access orders.
struct time_band {
  nanoseconds low = 0, high = 0;
};

// Iterations that do not converge to one time, but repeat after a period.
struct steady_cycle {
  std::uint32_t period = 0;          // 0: no period was found
  nanoseconds mean = 0, median = 0;  // over one period, or over all iterations if there is no period
};

}  // namespace um
