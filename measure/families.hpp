// The cases of every family, and functions for single measurements, which calibration uses.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/graph.hpp"
#include "core/memory_plan.hpp"
#include "measure/cases.hpp"

namespace um::measure {

// A named group of cases, listed and measured together.
struct family {
  std::string_view name, summary;
  std::vector<benchmark_case> (*cases)(const device_facts&);
};
std::span<const family> families();

std::vector<benchmark_case> allocation_cases(const device_facts& on);
std::vector<benchmark_case> link_cases(const device_facts& on);
std::vector<benchmark_case> first_touch_cases(const device_facts& on);
std::vector<benchmark_case> fault_cases(const device_facts& on);
std::vector<benchmark_case> prefetch_cases(const device_facts& on);
std::vector<benchmark_case> advice_cases(const device_facts& on);
std::vector<benchmark_case> discard_cases(const device_facts& on);
std::vector<benchmark_case> eviction_cases(const device_facts& on);
std::vector<benchmark_case> order_cases(const device_facts& on);
std::vector<benchmark_case> device_cases(const device_facts& on);
std::vector<benchmark_case> convolution_cases(const device_facts& on);

// --- allocation ---
enum class memory_kind : std::uint8_t { device, managed, pinned, device_pool, managed_pool, system };
enum class allocation_step : std::uint8_t { allocate, first_use, free };
benchmark_case allocation_case(memory_kind kind, allocation_step step, byte_count bytes);

// --- link ---
enum class copy_method : std::uint8_t { copy_engine, kernel };
// `both`: half of the bytes in each direction at once.
benchmark_case pinned_copy(copy_method by, copy_direction direction, byte_count bytes);
// `copies` of 64 KiB one after the other, for the fixed cost of a copy.
benchmark_case small_copies(int copies);

// --- first touch, faults ---
enum class data_state : std::uint8_t {
  nowhere,   // allocated, never touched
  cold,      // written by the CPU, never seen by the GPU
  warm,      // on the CPU and mapped there, accessed by the GPU before
  unmapped,  // on the CPU, accessed by the GPU before, mapped by neither, as after an eviction
  device     // on the GPU, so that only the access is timed
};
enum class access_pattern : std::uint8_t { sequential, strided, shuffled, chase };
struct gpu_access {
  data_state data = data_state::warm;
  access access_kind = access::read;
  access_pattern order = access_pattern::sequential;
  byte_count bytes = 128 * MiB;
  byte_count stride = 0;  // distance of accesses, unless sequential
  int blocks = 0;         // blocks of the grid if sequential; 0: as many as the GPU holds
};
benchmark_case gpu_touches(const gpu_access& what);
// One thread reads one place in every 2 MiB, so that every read causes one isolated fault. The counter
// `fault_ns` is the median of their times by the GPU's clock without the first; `idle_fault_ns` is the first,
// which finds the driver idle.
benchmark_case isolated_fault(data_state data);
// The CPU writes or reads data that is on the GPU, 4 bytes at every `stride`.
benchmark_case cpu_touch_case(byte_count bytes, byte_count stride, std::optional<advice> hint,
                              access kind = access::write);
benchmark_case cpu_first_touch(byte_count bytes);

// --- prefetch ---
void prefetch(const bench& on, copy_direction direction, managed_range what, std::size_t stream = 0);
struct prefetch_settings {
  copy_direction direction = copy_direction::to_device;
  byte_count bytes = GiB;
  byte_count call_bytes = GiB;  // size of each call
  int streams = 1, threads = 1;
  bool uses_batch_call = false;  // one batch call for all ranges
  bool is_in_place = false;      // the data is already at the destination
  bool is_populated = true;      // false: never touched, or no pages on the CPU yet
  bool is_stream_busy = false;   // issued while the stream is at work
};
benchmark_case prefetch_case(const prefetch_settings& what);
// Both directions at once, half of the bytes each, from two threads.
benchmark_case prefetch_both_ways(byte_count bytes);
// Prefetches from two threads, one for each direction. The counters `to_device_ns` and `to_host_ns` are
// the times until each ended.
repetition prefetch_both_ways_at_once(const bench& on, managed_range in, managed_range out);

// --- advice ---
enum class advised_step : std::uint8_t { advise, read, read_again, write, write_after_read, cpu_touch };
benchmark_case advice_case(const std::vector<advice>& hints, advised_step step, byte_count bytes);

// --- discard ---
enum class discard_step : std::uint8_t {
  discard,                // discard: only the call
  discard_and_prefetch,   // one call
  discard_then_prefetch,  // two calls
  prefetch,               // prefetch of data discarded before
  write_after_prefetch,   // write to data discarded and prefetched before
  write                   // write to data discarded before, without a prefetch
};
// `queued`: the discard is issued while its stream is at work; else the stream is idle.
benchmark_case discard_case(discard_step step, byte_count bytes, bool queued = false);
// Prefetches discarded data to the CPU. With `populated` it has pages there.
benchmark_case prefetch_discarded_to_host(byte_count bytes, bool populated);

// --- eviction ---
// Methods to evict device memory and bring its contents back.
enum class eviction_method : std::uint8_t {
  prefetch,     // prefetch to the CPU and back
  pinned_twin,  // a copy to pinned memory, then discard; discard-and-prefetch, then a copy
  kernel_twin   // the same by a copy kernel, to managed memory that prefers the CPU
};
enum class concurrent_work : std::uint8_t { none, convolution, product };  // what runs at the same time
benchmark_case eviction_case(eviction_method method, copy_direction direction, concurrent_work beside,
                             byte_count bytes);

// --- order ---
// A kernel reads data of which the last `percent` are on the device and the rest on the CPU. Counters:
// `hits_ns` and `misses_ns`, the times from the first read until half of the granules on the device, or on
// the CPU, had been read; `hits_ahead_percent`, the share of the granules on the device that had been read
// when half of the others were.
benchmark_case read_partly_resident(read_order order, byte_count bytes, int percent);
// As read_partly_resident(), but one thread reads once in each granule, and each read waits for the one
// before. Has no counters.
benchmark_case chase_partly_resident(byte_count bytes, int percent);

// --- operators ---
// A product of square matrices on the device.
benchmark_case square_product(precision arithmetic, std::int64_t side);
// Copies within device memory.
benchmark_case device_copy(byte_count bytes);
// Consecutive launches of an empty kernel.
benchmark_case empty_launches(int count);

// --- pairs, for calibration: one case measures values that are compared, each as a counter ---

// Prefetches mapped data to the device, again while it is there, and to the host: in_ns, there_ns, out_ns.
benchmark_case round_trip(byte_count bytes);
// Discards data, then prefetches it to the device: discard_ns, back_ns.
benchmark_case discard_and_prefetch_back(byte_count bytes);
// Medians of prefetches of 64 KiB, each in its own block, alternately to the device and to the host: in_ns,
// out_ns.
benchmark_case small_prefetches(int calls);
// Isolated faults of one kernel that alternate between data that the GPU has never accessed and data that it
// has: cold_ns, seen_ns, and their difference beyond_ns.
benchmark_case faults_on_new_and_seen_blocks(int managed_blocks);
// Isolated faults, each of its own kernel after a pause in which the driver is idle: idle_fault_ns.
benchmark_case isolated_faults_after_pause(int faults);
// Touches one place in every block of memory without pages, then another place: first_ns, again_ns.
// touches_again_in_blocks() uses a thread for each place; repeated_isolated_faults() uses one thread and
// gives the median of a fault.
benchmark_case touches_again_in_blocks(int managed_blocks);
benchmark_case repeated_isolated_faults(int managed_blocks);
// Prefetches to the host data that the GPU touched first, and again after it was moved back: new_ns,
// again_ns, and their difference beyond_ns.
benchmark_case host_population(byte_count bytes);
// A prefetch to the host alone, alone_ns, then together with one to the device: to_device_ns, to_host_ns.
benchmark_case prefetch_out_beside_in(byte_count bytes_in, byte_count bytes_out);
// A prefetch to the host in calls as those of plans, and a kernel that reads as much mapped data by faults:
// each alone, alone_ns and faults_alone_ns, then both at once, out_ns and faults_ns.
benchmark_case prefetch_out_beside_faults(byte_count bytes);

}  // namespace um::measure
