#include "simulator/driver_operation.hpp"

#include <algorithm>

namespace um {

managed_traffic& managed_traffic::operator+=(const managed_traffic& other) {
  time += other.time;
  batches += other.batches;
  faulted_granules += other.faulted_granules;
  services += other.services;
  evicted_blocks += other.evicted_blocks;
  prefetch_calls += other.prefetch_calls;
  discarded_blocks += other.discarded_blocks;
  fault_bytes += other.fault_bytes;
  populated_bytes += other.populated_bytes;
  prefetched_in_bytes += other.prefetched_in_bytes;
  prefetched_out_bytes += other.prefetched_out_bytes;
  host_populated_bytes += other.host_populated_bytes;
  evicted_bytes += other.evicted_bytes;
  host_fault_bytes += other.host_fault_bytes;
  remote_bytes += other.remote_bytes;
  return *this;
}

void driver_operation::ensure_chunk(std::uint32_t id) {
  block_entry& b = blocks[id];
  if (b.list == chunk_list::none) {
    b.has_clean_chunk = !blocks.is_full();
    if (!b.has_clean_chunk) {
      if (const auto victim = blocks.evict_first_victim()) evict_block(blocks[*victim]);
    }
    blocks.take_free_chunk();
    clock.work(costs().chunk_ns);
  } else if (b.device == 0 && b.host != 0) {  // its data had left
    clock.work(costs().chunk_ns * static_cast<nanoseconds>(costs().chunk_again_percent) / 100);
  }
}

// Sends everything resident to the host, in one service. evict_ns includes the work that is repeated.
void driver_operation::evict_block(block_entry& victim) {
  if (victim.device == 0) {
    clock.work(retry_time_);
    return;
  }
  clock.work(costs().evict_ns);
  ++traffic.evicted_blocks;
  const granule_set leaves = victim.device & ~victim.host, out = leaves & ~victim.discarded;
  populate_host(victim, leaves);
  if (out != 0) {
    clock.copy_to_host(out);
    clock.wait_for_room_until_copied();
    traffic.evicted_bytes += count(out) * granule_bytes;
  }
  victim.host |= out;
  victim.device = 0;
  map_if_accessed_remotely(victim);
}

granule_set host_pages_to_allocate(const block_entry& b, granule_set want, const uvm_costs& costs) {
  const granule_set fresh = want & ~b.host_pages;
  const bool whole = fresh != 0 && b.host_pages == 0 && costs.host_chunk_bytes == managed_block;
  return whole ? all_granules : fresh;
}

void driver_operation::populate_host(block_entry& b, granule_set want) {
  const granule_set fresh = host_pages_to_allocate(b, want, costs());
  if (fresh == 0) return;
  const granule_set nowhere = fresh & ~((b.device & ~b.discarded) | b.host);
  const bool whole = costs().host_chunk_bytes == managed_block && fresh == all_granules;
  const granule_set cleared = whole && nowhere != 0 ? fresh : nowhere;
  clock.work((costs().host_populate_ns * count(fresh) + costs().host_clear_ns * count(cleared)) /
             granules_per_block);
  traffic.host_populated_bytes += count(fresh) * granule_bytes;
  b.host_pages |= fresh;
}

void driver_operation::make_resident(std::uint32_t id, granule_set want, bool keep_host_copy,
                                     byte_count managed_traffic::* cause) {
  block_entry& b = blocks[id];
  ensure_chunk(id);
  if (!b.visited && b.host_pages != 0) clock.work(costs().first_visit_ns);
  b.visited = true;
  const granule_set mapped = keep_host_copy ? 0 : want & b.host_mapped;
  const unsigned scattered =
      scattered_faults_ ? count(mapped) / static_cast<unsigned>(costs().unmap_run_granules) : 0;
  clock.work(costs().host_unmap_ns * std::max(runs_in(mapped), scattered));
  b.host_mapped &= ~mapped;
  const granule_set copied = want & b.host & ~b.device, appears = want & ~(b.host | b.device);
  if (copied != 0) clock.copy_to_device(copied);
  if (appears != 0 && !b.has_clean_chunk) clock.zero(appears);
  traffic.*cause += count(copied) * granule_bytes;
  traffic.populated_bytes += count(appears) * granule_bytes;
  b.device |= want;
  if (!keep_host_copy) b.host &= ~want;
  b.remote &= ~want;
  blocks.append(id, b.discarded == all_granules ? chunk_list::discarded : chunk_list::used);
}

managed_traffic driver_operation::finish() {
  clock.wait_for_copies();
  traffic.time = clock.time();
  return traffic;
}

}  // namespace um
