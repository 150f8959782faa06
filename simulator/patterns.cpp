#include "simulator/patterns.hpp"

#include <algorithm>
#include <array>

namespace um {
namespace {

constexpr auto reads = access_mode::read;
constexpr auto writes = access_mode::write;

// Where data is before a pattern begins.
enum class initial_state : std::uint8_t {
  nowhere,
  cold,          // on the host, mapped by the CPU, blocks never visited
  mapped,        // on the host, mapped by the CPU, visited: as after a prefetch to the host
  unmapped,      // on the host, unmapped, visited: as after an eviction
  device,        // on the device, with host pages
  new_on_device  // on the device, which wrote it first: no host pages
};

// A new arena with capacity for all its data.
struct fresh_arena {
  managed_memory memory;
  range all;

  fresh_arena(const machine& on, byte_count bytes, initial_state data)
      : memory(bytes, (bytes + managed_block - 1) / managed_block, on), all{0, bytes} {
    if (data == initial_state::new_on_device) memory.touch(all, writes);
    if (data == initial_state::nowhere || data == initial_state::new_on_device) return;
    memory.place_on_host(all, data == initial_state::unmapped);
    if (data == initial_state::mapped || data == initial_state::device) memory.prefetch_to_device(all);
    if (data == initial_state::mapped) memory.prefetch_to_host(all);
  }
};

// --- kernels ---

template <initial_state Data>
pattern_result isolated_access(const machine& on) {
  fresh_arena b(on, managed_block, Data);
  return {0, b.memory.touch({0, 1}, reads, {.dependent = true}, true)};
}

template <initial_state Data, access_mode Mode>
pattern_result full_grid_access(const machine& on) {
  fresh_arena b(on, GiB, Data);
  return {GiB, b.memory.touch(b.all, Mode)};
}

pattern_result read_read_mostly(const machine& on) {
  fresh_arena b(on, GiB, initial_state::mapped);
  b.memory.advise(b.all, advice::read_mostly);
  return {GiB, b.memory.touch(b.all, reads)};
}

// 32 MiB of read-mostly data with a copy on each side.
pattern_result write_read_mostly(const machine& on) {
  fresh_arena b(on, 32 * MiB, initial_state::mapped);
  b.memory.advise(b.all, advice::read_mostly);
  b.memory.touch(b.all, reads);
  return {32 * MiB, b.memory.touch(b.all, writes)};
}

// A single thread block, in which each fault waits for the previous one.
template <initial_state Data>
pattern_result dependent_accesses(const machine& on) {
  fresh_arena b(on, 128 * MiB, Data);
  return {128 * MiB, b.memory.touch(b.all, writes, {.dependent = true})};
}

// One page of every stride-th granule, each touched by its own thread.
template <initial_state Data, unsigned Stride>
pattern_result strided_access(const machine& on) {
  fresh_arena b(on, 128 * MiB, Data);
  const access_mode how = Data == initial_state::nowhere ? writes : reads;
  return {128 * MiB / Stride, b.memory.touch(b.all, how, {.stride = Stride, .sparse = true})};
}

template <access_mode Mode>
pattern_result access_over_link(const machine& on) {
  fresh_arena b(on, GiB, initial_state::mapped);
  b.memory.advise(b.all, advice::preferred_host);
  return {GiB, b.memory.touch(b.all, Mode)};
}

// --- kernels on data that is not all on the device ---

enum class access_order : std::uint8_t {
  waves,
  grid_stride,
  chunk_a_thread,
  random,
  every_second_block,
  chase,
  sparse_pages
};

constexpr byte_count ratio_bytes = 256 * MiB;

// One of a chain of dependent reads that hits: a figure of the GPU, not of its driver, so no machine file has
// it; for GPUs other than these two it is an estimate. Of 8,192 reads in 11.2 ms on an H100, 10.1 ms on an
// H200, 246 faulted, 22 to 29 us each (results/microbenchmarks, faults/gpu_read/chase and faults/isolated).
constexpr nanoseconds dependent_hit_ns = 550;

// `hits_wait`: in random orders, hits do not run ahead of misses (worst case).
pattern_result run_kernel(managed_memory& memory, access_order how, bool hits_wait) {
  const range all{0, ratio_bytes};
  pattern_result done{ratio_bytes, {}};
  switch (how) {
    case access_order::waves:
    case access_order::grid_stride:  // a thread waits for missing data before it goes on to resident data
      done.traffic = memory.touch(all, reads);
      break;
    case access_order::chunk_a_thread:
    case access_order::random:
      done.traffic = memory.touch(all, reads, {.shuffled = true, .hits_wait = hits_wait});
      break;
    case access_order::every_second_block:
      done.bytes = ratio_bytes / 2;
      for (byte_count at = 0; at < ratio_bytes; at += 2 * managed_block) {
        done.traffic += memory.touch({at, managed_block}, reads, {}, at > 0);
      }
      break;
    case access_order::chase:
      done.traffic = memory.touch(all, reads, {.dependent = true}, true);
      done.traffic.time += dependent_hit_ns * static_cast<nanoseconds>(ratio_bytes / granule_bytes -
                                                                       done.traffic.faulted_granules);
      break;
    case access_order::sparse_pages:
      done.bytes = ratio_bytes / pages_per_granule;
      done.traffic = memory.touch(all, reads, {.sparse = true});
      break;
  }
  return done;
}

// The second pass over data that exceeds the capacity.
template <access_order How, bool HitsWait = false>
pattern_result second_pass_oversubscribed(const machine& on, double ratio) {
  const byte_count touched = How == access_order::every_second_block ? ratio_bytes / 2 : ratio_bytes;
  const auto room = static_cast<std::uint64_t>(static_cast<double>(touched / managed_block) / ratio);
  managed_memory memory(ratio_bytes, std::max<std::uint64_t>(room, 1), on);
  memory.place_on_host({0, ratio_bytes}, true);
  run_kernel(memory, How, HitsWait);
  return run_kernel(memory, How, HitsWait);
}

// All data fits, and its end has been prefetched.
template <access_order How>
pattern_result partly_resident(const machine& on, double ratio) {
  managed_memory memory(ratio_bytes, ratio_bytes / managed_block, on);
  memory.place_on_host({0, ratio_bytes});
  memory.prefetch_to_device({0, ratio_bytes});
  memory.prefetch_to_host({0, ratio_bytes});
  const auto there =
      round_down(static_cast<byte_count>(static_cast<double>(ratio_bytes) / ratio), managed_block);
  memory.prefetch_to_device({ratio_bytes - there, there});
  return run_kernel(memory, How, false);
}

// A pattern at ratio 2, its default.
template <pattern_result (*AtRatio)(const machine&, double)>
pattern_result at_ratio_2(const machine& on) {
  return AtRatio(on, 2);
}

// The first pass over data that the device has never seen and that exceeds the capacity.
pattern_result cold_oversubscribed(const machine& on, double ratio) {
  const auto room = static_cast<std::uint64_t>(static_cast<double>(GiB / managed_block) / ratio);
  managed_memory memory(GiB, std::max<std::uint64_t>(room, 1), on);
  memory.place_on_host({0, GiB});
  return {GiB, memory.touch({0, GiB}, reads)};
}

// Writes unpopulated data that exceeds the capacity: written blocks are evicted.
pattern_result new_oversubscribed(const machine& on, double ratio) {
  const auto room = static_cast<std::uint64_t>(static_cast<double>(GiB / managed_block) / ratio);
  managed_memory memory(GiB, std::max<std::uint64_t>(room, 1), on);
  return {GiB, memory.touch({0, GiB}, writes)};
}

// Prefetches data that exceeds the capacity in queued calls of 16 MiB: once before, and once measured.
pattern_result prefetch_oversubscribed(const machine& on, double ratio) {
  constexpr byte_count call = 16 * MiB;
  const auto room = static_cast<std::uint64_t>(static_cast<double>(GiB / managed_block) / ratio);
  managed_memory memory(GiB, std::max<std::uint64_t>(room, call / managed_block), on);
  memory.place_on_host({0, GiB});
  pattern_result done{GiB, {}};
  for (int pass = 0; pass < 2; ++pass) {
    done.traffic = {};
    for (byte_count at = 0; at < GiB; at += call) done.traffic += memory.prefetch_to_device({at, call}, true);
  }
  return done;
}

// The first pass over data that the device accesses over the link while accesses are counted.
pattern_result remote_access_until_migration(const machine& on, double ratio) {
  const auto room = static_cast<std::uint64_t>(static_cast<double>(GiB / managed_block) / ratio);
  managed_memory memory(GiB, std::max<std::uint64_t>(room, 1), on);
  memory.place_on_host({0, GiB});
  memory.advise({0, GiB}, advice::accessed_by_device);
  return {GiB, memory.touch({0, GiB}, reads)};
}

// The second sweep over twice the capacity: every block comes in and another leaves.
pattern_result second_sweep_at_ratio_2(const machine& on) {
  managed_memory memory(GiB, GiB / 2 / managed_block, on);
  memory.place_on_host({0, GiB});
  memory.touch({0, GiB}, reads);
  return {GiB, memory.touch({0, GiB}, reads)};
}

// --- prefetches ---

template <initial_state Data, byte_count Bytes>
pattern_result prefetch_in(const machine& on) {
  fresh_arena b(on, Bytes, Data);
  return {Bytes, b.memory.prefetch_to_device(b.all)};
}

// Prefetches in queued calls on one stream.
template <byte_count Call>
pattern_result prefetch_in_calls(const machine& on) {
  constexpr byte_count bytes = 256 * MiB;
  fresh_arena b(on, bytes, initial_state::mapped);
  managed_traffic t;
  for (byte_count at = 0; at < bytes; at += Call) t += b.memory.prefetch_to_device({at, Call}, true);
  return {bytes, t};
}

template <initial_state Data, byte_count Bytes>
pattern_result prefetch_out(const machine& on) {
  fresh_arena b(on, Bytes, Data);
  return {Bytes, b.memory.prefetch_to_host(b.all)};
}

// --- discards ---

pattern_result discard_all(const machine& on) {
  fresh_arena b(on, GiB, initial_state::device);
  return {GiB, b.memory.discard(b.all)};
}

template <byte_count Bytes>
pattern_result discard_then_write(const machine& on) {
  fresh_arena b(on, Bytes, initial_state::device);
  b.memory.discard(b.all);
  return {Bytes, b.memory.touch(b.all, writes)};
}

template <byte_count Bytes>
pattern_result discard_then_prefetch(const machine& on) {
  fresh_arena b(on, Bytes, initial_state::device);
  b.memory.discard(b.all);
  return {Bytes, b.memory.prefetch_to_device(b.all)};
}

template <initial_state Data>
pattern_result prefetch_out_discarded(const machine& on) {
  fresh_arena b(on, 256 * MiB, Data);
  b.memory.discard(b.all);
  return {256 * MiB, b.memory.prefetch_to_host(b.all)};
}

// --- the CPU ---

template <byte_count Bytes, byte_count Stride>
pattern_result cpu_touches(const machine& on) {
  fresh_arena b(on, Bytes, initial_state::device);
  managed_traffic t;
  for (byte_count at = 0; at < Bytes; at += Stride) t += b.memory.touch_by_host({at, 1}, writes);
  return {Bytes, t};
}

template <access_order How>
constexpr pattern oversubscribed_pattern(std::string_view name, std::string_view what) {
  constexpr bool in_no_order = How == access_order::chunk_a_thread || How == access_order::random;
  return {name, what, at_ratio_2<second_pass_oversubscribed<How>>, second_pass_oversubscribed<How>,
          in_no_order ? second_pass_oversubscribed<How, true> : nullptr};
}
template <access_order How>
constexpr pattern partly_resident_pattern(std::string_view name, std::string_view what) {
  return {name, what, at_ratio_2<partly_resident<How>>, partly_resident<How>};
}

using enum initial_state;
constexpr std::array table = std::to_array<pattern>({
    {"isolated_fault", "one thread reads a byte of a visited block that the CPU has mapped",
     isolated_access<mapped>},
    {"isolated_fault_unmapped", "the same, mapped by nobody", isolated_access<unmapped>},
    {"isolated_fault_cold", "the same of a block never visited", isolated_access<cold>},
    {"isolated_fault_nowhere", "the same of a block that lies nowhere", isolated_access<nowhere>},
    {"stream_nowhere", "a full grid writes 1 GiB for the first time", full_grid_access<nowhere, writes>},
    {"stream_cold", "a full grid reads 1 GiB of host data, blocks never visited",
     full_grid_access<cold, reads>},
    {"stream_read", "a full grid reads 1 GiB of host data, visited", full_grid_access<mapped, reads>},
    {"stream_write", "a full grid writes 1 GiB of host data, visited", full_grid_access<mapped, writes>},
    {"stream_unmapped", "a full grid reads 1 GiB of host data that nobody has mapped",
     full_grid_access<unmapped, reads>},
    {"stream_read_mostly", "a full grid reads 1 GiB of host data, read-mostly", read_read_mostly},
    {"write_read_mostly", "a full grid writes 32 MiB, read-mostly, that it has read", write_read_mostly},
    {"one_by_one", "one thread block writes 128 MiB of host data", dependent_accesses<mapped>},
    {"stride_64KiB", "a full grid reads one page of every granule of 128 MiB", strided_access<mapped, 1>},
    {"stride_64KiB_unmapped", "the same, mapped by nobody", strided_access<unmapped, 1>},
    {"stride_64KiB_cold", "the same of blocks never visited", strided_access<cold, 1>},
    {"stride_64KiB_nowhere", "a write of the same memory that lies nowhere", strided_access<nowhere, 1>},
    {"stride_128KiB", "a full grid reads one page of every second granule of 128 MiB",
     strided_access<mapped, 2>},
    {"stride_128KiB_unmapped", "the same, mapped by nobody", strided_access<unmapped, 2>},
    {"stride_128KiB_cold", "the same of blocks never visited", strided_access<cold, 2>},
    {"stride_128KiB_nowhere", "a write of the same memory that lies nowhere", strided_access<nowhere, 2>},
    {"stride_2MiB", "a full grid reads one page of every block of 128 MiB", strided_access<mapped, 32>},
    {"stride_2MiB_unmapped", "the same, mapped by nobody", strided_access<unmapped, 32>},
    {"stride_2MiB_cold", "the same of blocks never visited", strided_access<cold, 32>},
    {"stride_2MiB_nowhere", "a write of the same memory that lies nowhere", strided_access<nowhere, 32>},
    {"prefetch_in_64KiB", "prefetch of 64 KiB to the device", prefetch_in<mapped, 64 * KiB>},
    {"prefetch_in_2MiB", "prefetch of 2 MiB to the device", prefetch_in<mapped, 2 * MiB>},
    {"prefetch_in_32MiB", "prefetch of 32 MiB to the device", prefetch_in<mapped, 32 * MiB>},
    {"prefetch_in_256MiB", "prefetch of 256 MiB to the device", prefetch_in<mapped, 256 * MiB>},
    {"prefetch_in_512MiB", "prefetch of 512 MiB to the device", prefetch_in<mapped, 512 * MiB>},
    {"prefetch_in_1GiB", "prefetch of 1 GiB to the device", prefetch_in<mapped, GiB>},
    {"prefetch_in_2MiB_calls", "prefetch of 256 MiB to the device, call behind call",
     prefetch_in_calls<2 * MiB>},
    {"prefetch_in_16MiB_calls", "prefetch of 256 MiB to the device, call behind call",
     prefetch_in_calls<16 * MiB>},
    {"prefetch_in_64MiB_calls", "prefetch of 256 MiB to the device, call behind call",
     prefetch_in_calls<64 * MiB>},
    {"prefetch_in_new", "prefetch of 256 MiB to the device that lie nowhere",
     prefetch_in<nowhere, 256 * MiB>},
    {"prefetch_in_again", "prefetch of 1 GiB that is on the device", prefetch_in<device, GiB>},
    {"prefetch_in_again_256MiB", "prefetch of 256 MiB that are on the device",
     prefetch_in<device, 256 * MiB>},
    {"prefetch_out_64KiB", "prefetch of 64 KiB to the host", prefetch_out<device, 64 * KiB>},
    {"prefetch_out_2MiB", "prefetch of 2 MiB to the host", prefetch_out<device, 2 * MiB>},
    {"prefetch_out_32MiB", "prefetch of 32 MiB to the host", prefetch_out<device, 32 * MiB>},
    {"prefetch_out_256MiB", "prefetch of 256 MiB to the host", prefetch_out<device, 256 * MiB>},
    {"prefetch_out_1GiB", "prefetch of 1 GiB to the host", prefetch_out<device, GiB>},
    {"prefetch_out_again", "prefetch of 256 MiB that are on the host", prefetch_out<mapped, 256 * MiB>},
    {"prefetch_out_new", "prefetch of 256 MiB to the host, host pages not allocated yet",
     prefetch_out<new_on_device, 256 * MiB>},
    {"prefetch_out_discarded", "the same, and the data was discarded: nothing to copy",
     prefetch_out_discarded<new_on_device>},
    {"prefetch_out_discarded_pages", "the same, host pages allocated", prefetch_out_discarded<device>},
    {"discard", "discard of 1 GiB", discard_all},
    {"discard_then_write", "a full grid writes 16 MiB that were discarded", discard_then_write<16 * MiB>},
    {"discard_then_write_64MiB", "a full grid writes 64 MiB that were discarded",
     discard_then_write<64 * MiB>},
    {"discard_then_prefetch", "prefetch of 1 GiB that was discarded", discard_then_prefetch<GiB>},
    {"discard_then_prefetch_32MiB", "prefetch of 32 MiB that were discarded",
     discard_then_prefetch<32 * MiB>},
    {"remote_read", "a full grid reads 1 GiB over the link", access_over_link<reads>},
    {"remote_write", "a full grid writes 1 GiB over the link", access_over_link<writes>},
    {"sweep_under_pressure", "a full grid reads 1 GiB for the second time with room for half of it",
     second_sweep_at_ratio_2},
    {"cold_under_pressure", "a full grid reads 1 GiB for the first time with room for a part of it",
     at_ratio_2<cold_oversubscribed>, cold_oversubscribed},
    {"new_under_pressure", "a full grid writes 1 GiB for the first time with room for a part of it",
     at_ratio_2<new_oversubscribed>, new_oversubscribed},
    {"prefetch_under_pressure",
     "prefetch of 1 GiB in calls of 16 MiB for the second time, room for a part of it",
     at_ratio_2<prefetch_oversubscribed>, prefetch_oversubscribed},
    {"counted_over_the_link", "a full grid reads 1 GiB that is accessed by the device, room for a part of it",
     at_ratio_2<remote_access_until_migration>, remote_access_until_migration},
    oversubscribed_pattern<access_order::waves>("waves_under_pressure",
                                                "a grid of many blocks reads 256 MiB for the second time"),
    oversubscribed_pattern<access_order::grid_stride>("grid_stride_under_pressure",
                                                      "the same, a resident grid that strides"),
    oversubscribed_pattern<access_order::chunk_a_thread>("chunk_a_thread_under_pressure",
                                                         "the same, a chunk for every thread"),
    oversubscribed_pattern<access_order::random>("random_under_pressure",
                                                 "the same in an order without a pattern"),
    oversubscribed_pattern<access_order::every_second_block>("block_strided_under_pressure",
                                                             "the same of every second block of 2 MiB"),
    oversubscribed_pattern<access_order::chase>("pointer_chase_under_pressure",
                                                "the same by one thread of dependent reads"),
    oversubscribed_pattern<access_order::sparse_pages>("sparse_pages_under_pressure",
                                                       "the same of one page in every granule"),
    partly_resident_pattern<access_order::waves>(
        "waves_partly_resident", "a grid of many blocks reads 256 MiB, the end of it on the device"),
    partly_resident_pattern<access_order::grid_stride>("grid_stride_partly_resident",
                                                       "the same, a resident grid that strides"),
    partly_resident_pattern<access_order::chunk_a_thread>("chunk_a_thread_partly_resident",
                                                          "the same, a chunk for every thread"),
    partly_resident_pattern<access_order::random>("random_partly_resident",
                                                  "the same in an order without a pattern"),
    partly_resident_pattern<access_order::every_second_block>("block_strided_partly_resident",
                                                              "the same of every second block of 2 MiB"),
    partly_resident_pattern<access_order::chase>("pointer_chase_partly_resident",
                                                 "the same by one thread of dependent reads"),
    partly_resident_pattern<access_order::sparse_pages>("sparse_pages_partly_resident",
                                                        "the same of one page in every granule"),
    {"cpu_2MiB", "the CPU writes one place in every block of 128 MiB on the device",
     cpu_touches<128 * MiB, 2 * MiB>},
    {"cpu_64KiB", "the CPU writes one place in every granule of 16 MiB on the device",
     cpu_touches<16 * MiB, 64 * KiB>},
});

}  // namespace

std::span<const pattern> patterns() {
  return table;
}

const pattern* find_pattern(std::string_view name) {
  const auto found = std::ranges::find(table, name, &pattern::name);
  return found == table.end() ? nullptr : &*found;
}

double rate_of(const pattern_result& r) {
  if (r.traffic.time == 0) return 0;
  return static_cast<double>(r.bytes) * 1e9 / static_cast<double>(r.traffic.time);
}

}  // namespace um
