// Calls that move or discard managed memory, and the CPU's accesses.
#include <algorithm>
#include <vector>

#include "simulator/driver_operation.hpp"

namespace um::driver {
namespace {

// Adds the fixed cost of a call that moves something.
void add_call_cost(driver_operation& call, nanoseconds fixed) {
  call.clock.wait_for_copies();
  call.clock.work(fixed);
}

// Sends granules to the host. Read-mostly data is copied and stays on the device as well.
void send_to_host(driver_operation& call, std::uint32_t id, granule_set want) {
  block_entry& b = call.blocks[id];
  const granule_set leaves = want & b.device & ~b.host & ~b.discarded;
  call.populate_host(b, want);
  if (leaves != 0) call.clock.copy_to_host(leaves);
  call.traffic.prefetched_out_bytes += count(leaves) * granule_bytes;
  b.host |= want;
  b.discarded &= ~want;
  if (is_advised(b, advice::read_mostly) && (b.device & want) != 0) {
    call.blocks.append(id, chunk_list::used);
    return;
  }
  b.device &= ~want;
  map_if_accessed_remotely(b);
  call.blocks.release_if_empty(id);
}

// Accounts for CPU faults on data that prefers the device: single pages leave it, while their granule stays.
void service_single_page_faults(driver_operation& touch, range r, std::uint32_t id) {
  const range block{id * managed_block, managed_block};
  const byte_count begin = std::max(r.offset, block.offset),
                   end = std::min(r.offset + r.bytes, block.offset + block.bytes);
  const byte_count pages = (round_up(end, page_bytes) - round_down(begin, page_bytes)) / page_bytes;
  const uvm_costs& costs = touch.costs();
  touch.clock.work(static_cast<nanoseconds>(pages) *
                   (costs.host_fault_ns + costs.host_map_page_ns + costs.migrate_copy_ns));
  touch.traffic.host_fault_bytes += pages * page_bytes;
}

// Services one CPU fault: moves a granule and those that the prefetcher adds to the host.
void service_cpu_fault(driver_operation& touch, std::uint32_t id, granule_set asked, bool writes) {
  block_entry& b = touch.blocks[id];
  const uvm_costs& costs = touch.costs();
  touch.clock.work(costs.host_fault_ns);
  const granule_set want = with_prefetched_granules(b.host & b.host_mapped, asked);
  const granule_set leaves = want & b.device & ~b.host & ~b.discarded;
  touch.populate_host(b, want);
  if (leaves != 0) touch.clock.copy_to_host(leaves);
  touch.clock.wait_for_copies();
  touch.traffic.host_fault_bytes += count(leaves) * granule_bytes;
  touch.clock.work(costs.host_map_page_ns * pages_per_granule * count(want & ~b.host_mapped));
  b.host |= want;
  b.host_mapped |= want;
  b.discarded &= ~want;
  if (writes || !is_advised(b, advice::read_mostly)) b.device &= ~want;
  map_if_accessed_remotely(b);
  touch.blocks.release_if_empty(id);
}

}  // namespace

managed_traffic prefetch_to_device(block_table& blocks, const driver_times& times, range r, bool queued) {
  const uvm_costs& costs = times.costs();
  driver_operation call(blocks, times, costs.prefetch_block_ns);
  call.traffic.prefetch_calls = 1;
  const block_cover c = cover_of(r);
  const int walks = c.first == c.last ? 1 : 2;
  for (int walk = 0; walk < walks; ++walk) {
    for (std::uint32_t id = c.first; id <= c.last; ++id) {
      block_entry& b = blocks[id];
      call.clock.work(costs.prefetch_block_ns);
      b.discarded &= ~c.granules_of(id);
      const granule_set appears = c.granules_of(id) & ~(b.device | b.host);
      call.clock.work(costs.populate_ns * count(appears) / granules_per_block);
      call.make_resident(id, c.granules_of(id), is_advised(b, advice::read_mostly),
                         &managed_traffic::prefetched_in_bytes);
    }
  }
  if (call.traffic.prefetched_in_bytes > 0)
    add_call_cost(call, costs.prefetch_call_ns + (queued ? walks * costs.prefetch_queued_ns : 0));
  return call.finish();
}

// The first walk issues the copies; the second waits for each block's copies and maps its pages.
managed_traffic prefetch_to_host(block_table& blocks, const driver_times& times, range r) {
  const uvm_costs& costs = times.costs();
  driver_operation call(blocks, times, costs.service_ns);
  call.traffic.prefetch_calls = 1;
  const block_cover c = cover_of(r);
  const bool twice = c.first != c.last;
  std::vector<nanoseconds> copied;
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    call.clock.work(costs.prefetch_block_ns);
    send_to_host(call, id, c.granules_of(id));
    copied.push_back(call.clock.copied_to_host());
  }
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    block_entry& b = blocks[id];
    if (twice) call.clock.work(costs.prefetch_block_ns);
    const granule_set fresh = c.granules_of(id) & ~b.host_mapped;
    if (fresh == 0) continue;
    call.clock.wait_until(copied[id - c.first]);
    call.clock.work(costs.host_map_page_ns * pages_per_granule * count(fresh));
    b.host_mapped |= fresh;
  }
  if (call.traffic.prefetched_out_bytes > 0) add_call_cost(call, costs.prefetch_to_host_call_ns);
  return call.finish();
}

managed_traffic discard(block_table& blocks, const driver_times& times, range r) {
  driver_operation call(blocks, times, times.costs().service_ns);
  const byte_count begin = round_up(r.offset, granule_bytes);
  const byte_count end = round_down(r.offset + r.bytes, granule_bytes);
  if (end <= begin) return call.traffic;
  const block_cover c = cover_of({begin, end - begin});
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    block_entry& b = blocks[id];
    const granule_set dead = c.granules_of(id);
    b.device &= ~dead;
    b.host &= ~dead;
    b.host_mapped &= ~dead;
    b.remote &= ~dead;
    b.discarded |= dead;
    blocks.release_if_empty(id);
    call.clock.work(times.costs().discard_block_ns);
    ++call.traffic.discarded_blocks;
  }
  return call.finish();
}

managed_traffic touch_by_host(block_table& blocks, const driver_times& times, range r, bool writes) {
  driver_operation touch(blocks, times, times.costs().service_ns);
  const block_cover c = cover_of(r);
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    const block_entry& b = blocks[id];
    while (true) {
      const granule_set mine = b.host & b.host_mapped & (writes ? ~b.device : all_granules);
      const granule_set missing = c.granules_of(id) & ~mine;
      if (missing == 0) break;
      const granule_set asked = first_granules_of(missing, 1);
      if (is_advised(b, advice::preferred_device) && (b.device & asked) != 0 &&
          !is_advised(b, advice::read_mostly)) {
        service_single_page_faults(touch, r, id);
        break;
      }
      service_cpu_fault(touch, id, asked, writes);
    }
  }
  return touch.finish();
}

}  // namespace um::driver
