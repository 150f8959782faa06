#include "simulator/patterns.hpp"

#include <algorithm>
#include <array>

namespace um {
namespace {

constexpr auto reads = access_mode::read;
constexpr auto writes = access_mode::write;

// An arena of one's own in which everything fits.
struct bench {
  managed_memory memory;
  range all;

  bench(const machine& on, byte_count bytes)
      : memory(bytes, (bytes + managed_block - 1) / managed_block, on), all{0, bytes} {}

  // Host data in blocks that the GPU has visited: mapped by the CPU, as a prefetch leaves it.
  bench& visited() {
    memory.place_on_host(all);
    memory.prefetch_to_device(all);
    memory.prefetch_to_host(all);
    return *this;
  }
  bench& on_device() {
    memory.touch(all, writes);
    return *this;
  }
};

pattern_result isolated_fault(const machine& on) {
  bench b = bench(on, managed_block).visited();
  return {0, b.memory.touch({0, 1}, reads)};
}

pattern_result isolated_fault_nowhere(const machine& on) {
  bench b(on, managed_block);
  return {0, b.memory.touch({0, 1}, reads)};
}

pattern_result stream_nowhere(const machine& on) {
  bench b(on, GiB);
  return {GiB, b.memory.touch(b.all, writes)};
}

pattern_result stream_cold(const machine& on) {
  bench b(on, GiB);
  b.memory.place_on_host(b.all);
  return {GiB, b.memory.touch(b.all, reads)};
}

template <access_mode Mode>
pattern_result stream_visited(const machine& on) {
  bench b = bench(on, GiB).visited();
  return {GiB, b.memory.touch(b.all, Mode)};
}

pattern_result read_mostly(const machine& on) {
  bench b = bench(on, GiB).visited();
  b.memory.advise(b.all, advice::read_mostly);
  return {GiB, b.memory.touch(b.all, reads)};
}

// A single thread block: each fault waits for the one before.
pattern_result one_by_one(const machine& on) {
  bench b = bench(on, 64 * MiB).visited();
  return {64 * MiB, b.memory.touch(b.all, writes, {.one_by_one = true})};
}

// Single pages fault: the driver collects as many granules as it takes faults.
template <unsigned Stride>
pattern_result strided(const machine& on) {
  machine wide = on;
  wide.uvm.batch_granules = 256;
  bench b = bench(wide, 128 * MiB).visited();
  return {128 * MiB / Stride, b.memory.touch(b.all, reads, {.stride = Stride})};
}

template <byte_count Bytes>
pattern_result prefetch_in(const machine& on) {
  bench b = bench(on, Bytes).visited();
  return {Bytes, b.memory.prefetch_to_device(b.all)};
}

pattern_result prefetch_in_again(const machine& on) {
  bench b = bench(on, GiB).on_device();
  return {GiB, b.memory.prefetch_to_device(b.all)};
}

template <byte_count Bytes>
pattern_result prefetch_out(const machine& on) {
  bench b = bench(on, Bytes).visited();
  b.memory.touch(b.all, writes);
  return {Bytes, b.memory.prefetch_to_host(b.all)};
}

pattern_result prefetch_out_new(const machine& on) {
  bench b = bench(on, GiB).on_device();
  return {GiB, b.memory.prefetch_to_host(b.all)};
}

pattern_result prefetch_out_discarded(const machine& on) {
  bench b = bench(on, GiB).on_device();
  b.memory.discard(b.all);
  return {GiB, b.memory.prefetch_to_host(b.all)};
}

pattern_result discard_all(const machine& on) {
  bench b = bench(on, GiB).on_device();
  return {GiB, b.memory.discard(b.all)};
}

pattern_result discard_then_write(const machine& on) {
  bench b = bench(on, 64 * MiB).on_device();
  b.memory.discard(b.all);
  return {64 * MiB, b.memory.touch(b.all, writes)};
}

pattern_result discard_then_prefetch(const machine& on) {
  bench b = bench(on, GiB).on_device();
  b.memory.discard(b.all);
  return {GiB, b.memory.prefetch_to_device(b.all)};
}

template <access_mode Mode>
pattern_result over_the_link(const machine& on) {
  bench b = bench(on, GiB).visited();
  b.memory.advise(b.all, advice::accessed_by_device);
  return {GiB, b.memory.touch(b.all, Mode)};
}

pattern_result read_by_cpu(const machine& on) {
  bench b = bench(on, GiB).visited();
  b.memory.touch(b.all, writes);
  return {GiB, b.memory.touch_by_host(b.all, reads)};
}

// The second sweep over twice what the device holds: every block comes in and another leaves.
pattern_result sweep_under_pressure(const machine& on) {
  managed_memory memory(GiB, GiB / 2 / managed_block, on);
  memory.place_on_host({0, GiB});
  memory.touch({0, GiB}, reads);
  return {GiB, memory.touch({0, GiB}, reads)};
}

constexpr std::array<pattern, 27> table{{
    {"isolated_fault", "one thread reads a byte of a visited block", isolated_fault},
    {"isolated_fault_nowhere", "the same of a block that lies nowhere", isolated_fault_nowhere},
    {"stream_nowhere", "a full grid writes 1 GiB for the first time", stream_nowhere},
    {"stream_cold", "a full grid reads 1 GiB of host data, blocks never visited", stream_cold},
    {"stream_read", "a full grid reads 1 GiB of host data, visited", stream_visited<reads>},
    {"stream_write", "a full grid writes 1 GiB of host data, visited", stream_visited<writes>},
    {"stream_read_mostly", "a full grid reads 1 GiB of host data, read-mostly", read_mostly},
    {"one_by_one", "one thread block writes 64 MiB of host data", one_by_one},
    {"stride_64KiB", "a full grid reads one page of every granule of 128 MiB", strided<1>},
    {"stride_128KiB", "a full grid reads every second granule of 128 MiB", strided<2>},
    {"stride_2MiB", "a full grid reads one granule of every block of 128 MiB", strided<32>},
    {"prefetch_in_2MiB", "prefetch of 2 MiB to the device", prefetch_in<2 * MiB>},
    {"prefetch_in_32MiB", "prefetch of 32 MiB to the device", prefetch_in<32 * MiB>},
    {"prefetch_in_512MiB", "prefetch of 512 MiB to the device", prefetch_in<512 * MiB>},
    {"prefetch_in_1GiB", "prefetch of 1 GiB to the device", prefetch_in<GiB>},
    {"prefetch_in_again", "prefetch of 1 GiB that is on the device", prefetch_in_again},
    {"prefetch_out_2MiB", "prefetch of 2 MiB to the host", prefetch_out<2 * MiB>},
    {"prefetch_out_1GiB", "prefetch of 1 GiB to the host", prefetch_out<GiB>},
    {"prefetch_out_new", "the same, host pages not allocated yet", prefetch_out_new},
    {"prefetch_out_discarded", "the same, and the data was discarded: nothing to copy",
     prefetch_out_discarded},
    {"discard", "discard of 1 GiB", discard_all},
    {"discard_then_write", "a full grid writes 64 MiB that were discarded", discard_then_write},
    {"discard_then_prefetch", "prefetch of 1 GiB that was discarded", discard_then_prefetch},
    {"remote_read", "a full grid reads 1 GiB over the link", over_the_link<reads>},
    {"remote_write", "a full grid writes 1 GiB over the link", over_the_link<writes>},
    {"sweep_under_pressure", "a full grid reads 1 GiB for the second time with room for half of it",
     sweep_under_pressure},
    {"read_by_cpu", "the CPU reads 1 GiB that lies on the device", read_by_cpu},
}};

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
