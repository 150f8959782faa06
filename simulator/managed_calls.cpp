// Prefetch and discard.
#include "simulator/managed_memory.hpp"

namespace um {

managed_traffic managed_memory::prefetch_to_device(range r, bool queued) {
  refuse_outside(r);
  operation now = begin();
  if (r.bytes == 0) return now.traffic;
  const cover c = covered(r);
  const uvm_costs& costs = prices_.of();
  now.traffic.prefetch_calls = 1;
  now.anew = costs.prefetch_block_ns;
  const int walks = c.first == c.last ? 1 : 2;
  for (int walk = 0; walk < walks; ++walk) {
    for (std::uint32_t id = c.first; id <= c.last; ++id) {
      entry& b = entries_[id];
      now.clock.work(costs.prefetch_block_ns);
      b.discarded &= ~c.of(id);
      const granule_set appears = c.of(id) & ~(b.device | b.host);
      now.clock.work(costs.populate_ns * count(appears) / granules_per_block);
      make_resident(id, c.of(id), advised(b, advice::read_mostly), &managed_traffic::prefetched_in_bytes,
                    now);
    }
  }
  if (now.traffic.prefetched_in_bytes > 0)
    finish_call(costs.prefetch_call_ns + (queued ? walks * costs.prefetch_queued_ns : 0), now);
  return end(now);
}

// The first walk issues the copies, the second waits for each block's and maps its pages.
managed_traffic managed_memory::prefetch_to_host(range r) {
  refuse_outside(r);
  operation now = begin();
  if (r.bytes == 0) return now.traffic;
  const cover c = covered(r);
  const uvm_costs& costs = prices_.of();
  now.traffic.prefetch_calls = 1;
  const bool twice = c.first != c.last;
  std::vector<nanoseconds> copied;
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    now.clock.work(costs.prefetch_block_ns);
    expel_block(id, c.of(id), now);
    copied.push_back(now.clock.copied_to_host());
  }
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    entry& b = entries_[id];
    if (twice) now.clock.work(costs.prefetch_block_ns);
    const granule_set fresh = c.of(id) & ~b.host_mapped;
    if (fresh == 0) continue;
    now.clock.wait_until(copied[id - c.first]);
    now.clock.work(costs.host_map_page_ns * pages_per_granule * count(fresh));
    b.host_mapped |= fresh;
  }
  if (now.traffic.prefetched_out_bytes > 0) finish_call(costs.prefetch_to_host_call_ns, now);
  return end(now);
}

// What a call that moves something takes beside the work on its blocks.
void managed_memory::finish_call(nanoseconds fixed, operation& now) {
  now.clock.wait_for_copies();
  now.clock.work(fixed);
}

// Read-mostly data is copied and stays on the device as well.
void managed_memory::expel_block(std::uint32_t id, granule_set want, operation& now) {
  entry& b = entries_[id];
  const granule_set leaves = want & b.device & ~b.host & ~b.discarded;
  populate_host(b, want, now);
  if (leaves != 0) now.clock.copy_to_host(leaves);
  now.traffic.prefetched_out_bytes += count(leaves) * granule_bytes;
  b.host |= want;
  b.discarded &= ~want;
  if (advised(b, advice::read_mostly) && (b.device & want) != 0) {
    append(id, list::used);
    return;
  }
  b.device &= ~want;
  map_remotely(b);
  settle(id);
}

managed_traffic managed_memory::discard(range r) {
  refuse_outside(r);
  operation now = begin();
  const byte_count first = round_up(r.offset, granule_bytes);
  const byte_count last = round_down(r.offset + r.bytes, granule_bytes);
  if (last <= first) return now.traffic;
  const cover c = covered({first, last - first});
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    entry& b = entries_[id];
    const granule_set dead = c.of(id);
    b.device &= ~dead;
    b.host &= ~dead;
    b.host_mapped &= ~dead;
    b.remote &= ~dead;
    b.discarded |= dead;
    settle(id);
    now.clock.work(prices_.of().discard_block_ns);
    ++now.traffic.discarded_blocks;
  }
  return end(now);
}

}  // namespace um
