#include "simulator/cost.hpp"
#include "simulator/managed_memory.hpp"

namespace um {

managed_traffic& managed_traffic::operator+=(const managed_traffic& other) {
  faulted_blocks += other.faulted_blocks;
  upgraded_blocks += other.upgraded_blocks;
  evicted_blocks += other.evicted_blocks;
  fault_bytes += other.fault_bytes;
  first_fault_bytes += other.first_fault_bytes;
  populated_bytes += other.populated_bytes;
  rewritten_bytes += other.rewritten_bytes;
  prefetched_in_bytes += other.prefetched_in_bytes;
  prefetched_out_bytes += other.prefetched_out_bytes;
  zeroed_bytes += other.zeroed_bytes;
  host_zeroed_bytes += other.host_zeroed_bytes;
  evicted_bytes += other.evicted_bytes;
  zero_copy_bytes += other.zero_copy_bytes;
  prefetch_calls += other.prefetch_calls;
  discarded_blocks += other.discarded_blocks;
  return *this;
}

// The rates of faults were measured on streams of them, so they hold the cost of servicing. What
// they do not hold: the latency of a first fault, before the stream flows, and faults that change
// rights and move nothing. Memory that a prefetch makes appear is zeroed by the device at its own
// bandwidth; no rate of its own is known for the host's side.
nanoseconds time_of(const managed_traffic& t, const machine& on) {
  const std::uint64_t latencies = t.upgraded_blocks + (t.faulted_blocks > t.upgraded_blocks ? 1 : 0);
  const byte_count to_host = t.prefetched_out_bytes + t.host_zeroed_bytes;
  const auto at = [&on](std::uint64_t amount, std::uint64_t per_second, const char* name) {
    return time_for(amount, per_second, on, name);
  };
  return static_cast<nanoseconds>(latencies) * on.fault_ns +
         static_cast<nanoseconds>(t.prefetch_calls) * on.prefetch_call_ns +
         static_cast<nanoseconds>(t.discarded_blocks) * on.discard_block_ns +
         at(t.fault_bytes, on.fault_to_device_bytes_per_s, "fault_to_device_bytes_per_s") +
         at(t.first_fault_bytes, on.first_fault_bytes_per_s, "first_fault_bytes_per_s") +
         at(t.populated_bytes, on.populate_bytes_per_s, "populate_bytes_per_s") +
         at(t.rewritten_bytes, on.discarded_write_bytes_per_s, "discarded_write_bytes_per_s") +
         at(t.prefetched_in_bytes, on.prefetch_to_device_bytes_per_s, "prefetch_to_device_bytes_per_s") +
         at(to_host, on.prefetch_to_host_bytes_per_s, "prefetch_to_host_bytes_per_s") +
         at(t.zeroed_bytes, on.device_bytes_per_s, "device_bytes_per_s") +
         at(t.evicted_bytes, on.evict_bytes_per_s, "evict_bytes_per_s") +
         at(t.zero_copy_bytes, on.zero_copy_bytes_per_s, "zero_copy_bytes_per_s");
}

}  // namespace um
