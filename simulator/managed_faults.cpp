// What kernels and the CPU touch, and how the driver answers.
#include <algorithm>

#include "simulator/managed_memory.hpp"

namespace um {
namespace {

constexpr byte_count counted_bytes = 128;  // one access, as the GPU counts them

// The driver fetches at most 256 faults at a time [uvm_perf_fault_batch_count].
constexpr unsigned full_batch = 256;

// Every stride-th granule of the block, counted from granule `origin` of block `first`.
granule_set strided(std::uint32_t id, std::uint32_t first, unsigned origin, unsigned stride) {
  if (stride <= 1) return all_granules;
  granule_set s = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    const std::uint64_t at = std::uint64_t{id - first} * granules_per_block + g;
    if (at >= origin && (at - origin) % stride == 0) s |= granule_set{1} << g;
  }
  return s;
}

// Bytes of the range within those granules of the block.
byte_count bytes_within(range r, std::uint32_t id, granule_set granules) {
  byte_count sum = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    if ((granules >> g & 1U) == 0) continue;
    const byte_count begin = id * managed_block + g * granule_bytes;
    sum += std::min(begin + granule_bytes, r.offset + r.bytes) - std::max(begin, r.offset);
  }
  return sum;
}

}  // namespace

// A write to data that is mapped read-only faults: read-mostly data with a copy, and discarded data.
granule_set managed_memory::ready(const entry& b, bool writes) const {
  const granule_set here = writes ? b.device & ~(b.host | b.discarded) : b.device;
  return here | b.remote;
}

bool managed_memory::hits(range r, access_mode mode) const {
  refuse_outside(r);
  if (r.bytes == 0) return true;
  const cover c = covered(r);
  const bool writes = mode != access_mode::read;
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    const entry& b = entries_[id];
    if (b.remote != 0 || (c.of(id) & ~ready(b, writes)) != 0) return false;
  }
  return true;
}

managed_traffic managed_memory::touch(range r, access_mode mode, touch_pattern how, bool busy) {
  refuse_outside(r);
  operation now = begin(busy);
  now.how = how;
  now.in_no_order = !how.one_by_one;
  if (r.bytes == 0) return now.traffic;
  const cover c = covered(r);
  const auto origin = static_cast<unsigned>(r.offset % managed_block / granule_bytes);
  const bool writes = mode != access_mode::read;
  const unsigned most = most_of_batch(how);
  unsigned waiting = 0;
  batch_.clear();
  const auto serve = [&] {
    service_batch(writes, now);
    now.busy = true;
    waiting = 0;
  };
  for (std::uint32_t id = c.first; id <= c.last;) {
    const entry& b = entries_[id];
    granule_set needed = c.of(id);
    if (how.stride > 1) needed &= strided(id, c.first, origin, how.stride);
    const granule_set missing = needed & ~ready(b, writes);
    if (missing == 0) {
      if ((b.remote & needed) != 0) access_remote(r, id, b.remote & needed, mode, now);
      ++id;
      continue;
    }
    const unsigned of_block =
        how.sparse ? static_cast<unsigned>(prices_.of().sparse_granules) : granules_per_block;
    const granule_set asked = first_of(missing, std::min(most - waiting, of_block));
    batch_.push_back({id, asked});
    waiting += count(asked);
    if (waiting == most) {
      serve();  // and look again at what the block still lacks
    } else if (stays_on_host(b)) {
      serve();  // what stays is accessed over the link as soon as it is mapped
    } else if ((missing & ~grown(b.device, asked)) != 0) {
      serve();
    } else {
      ++id;
    }
  }
  if (waiting > 0) serve();
  return end(now);
}

unsigned managed_memory::most_of_batch(touch_pattern how) const {
  if (how.one_by_one) return 1;
  const uvm_costs& costs = prices_.of();
  return how.sparse ? full_batch / static_cast<unsigned>(costs.faults_of_page)
                    : static_cast<unsigned>(costs.batch_granules);
}

// A streaming kernel fills a batch with the faults of batch_granules.
nanoseconds managed_memory::fetching(unsigned granules, touch_pattern how) const {
  const uvm_costs& costs = prices_.of();
  if (how.one_by_one) return costs.fault_ns * granules;
  if (how.sparse) return costs.fault_ns * granules * static_cast<nanoseconds>(costs.faults_of_page);
  return costs.fault_ns * granules * full_batch / static_cast<nanoseconds>(costs.batch_granules);
}

void managed_memory::service_batch(bool writes, operation& now) {
  const uvm_costs& costs = prices_.of();
  if (!now.busy) now.clock.work(costs.interrupt_ns);
  ++now.traffic.batches;
  unsigned granules = 0;
  for (const fault& f : batch_) granules += count(f.granules);
  now.traffic.fault_groups += granules;
  const bool stream_of_reads = !writes && !now.how.one_by_one && !now.how.sparse;
  const auto percent = static_cast<nanoseconds>(stream_of_reads ? costs.read_batches_percent : 100);
  now.clock.work(fetching(granules, now.how) * percent / 100);
  for (const fault& f : batch_) service(f, writes, now);
  now.clock.wait_for_copies();
  now.clock.work(costs.batch_ns * percent / 100);
  batch_.clear();
}

void managed_memory::service(const fault& f, bool writes, operation& now) {
  const entry& b = entries_[f.block];
  now.clock.work(prices_.of().service_ns);
  ++now.traffic.services;
  granule_set rest = f.granules;
  if (const granule_set dead = writes ? rest & b.discarded : 0; dead != 0) {
    service_discarded({f.block, dead}, now);
    rest &= ~dead;
  }
  if (stays_on_host(b)) {
    const granule_set stays = rest & (advised(b, advice::preferred_host) ? ~b.device : b.host);
    if (stays != 0) service_in_place({f.block, stays}, now);
    rest &= ~stays;
  }
  if (rest == 0) return;
  const bool nowhere = (b.device | b.host) == 0;
  granule_set want = nowhere && advised(b, advice::preferred_device) ? all_granules : grown(b.device, rest);
  want &= ~b.discarded | rest;
  const granule_set arrives = want & ~b.device, copied = arrives & b.host;
  now.clock.work(prices_.of().issue_copy_ns * 2 * count(copied & rest));  // what is asked for, and the rest
  make_resident(f.block, want, advised(b, advice::read_mostly) && !writes, &managed_traffic::fault_bytes,
                now);
  now.clock.work(prices_.of().granule_ns * count(arrives));
}

// Page by page: the driver does not prefetch into discarded data. The block stays on the list of
// discarded ones, though its value counts again.
void managed_memory::service_discarded(const fault& f, operation& now) {
  make_resident(f.block, f.granules, false, &managed_traffic::fault_bytes, now);
  now.clock.work(prices_.of().page_fault_ns * pages_per_granule * count(f.granules));
  append(f.block, list::discarded);
  entries_[f.block].discarded &= ~f.granules;
}

// Data resident nowhere that prefers the host is allocated there, a block at once, and mapped.
void managed_memory::service_in_place(const fault& f, operation& now) {
  entry& b = entries_[f.block];
  const bool nowhere = (b.device | b.host) == 0;
  const granule_set fresh = (nowhere ? all_granules : f.granules) & ~b.host;
  populate_host(b, fresh, 0, now);
  b.host |= fresh;
  b.discarded &= ~fresh;
  map_remotely(b);
}

void managed_memory::make_resident(std::uint32_t id, granule_set want, bool keeps_host,
                                   byte_count managed_traffic::*cause, operation& now) {
  entry& b = entries_[id];
  take_chunk(id, now);
  if (!b.visited && b.host_pages != 0) now.clock.work(prices_.of().first_visit_ns);
  b.visited = true;
  const granule_set mapped = keeps_host ? 0 : want & b.host_mapped;
  const unsigned scattered =
      now.in_no_order ? count(mapped) / static_cast<unsigned>(prices_.of().unmap_run_granules) : 0;
  now.clock.work(prices_.of().host_unmap_ns * std::max(runs_in(mapped), scattered));
  b.host_mapped &= ~mapped;
  const granule_set copied = want & b.host & ~b.device, appears = want & ~(b.host | b.device);
  if (copied != 0) now.clock.copy_to_device(copied);
  if (appears != 0 && !b.clean_chunk) now.clock.zero(appears);
  now.traffic.*cause += count(copied) * granule_bytes;
  now.traffic.populated_bytes += count(appears) * granule_bytes;
  b.device |= want;
  if (!keeps_host) b.host &= ~want;
  b.remote &= ~want;
  append(id, b.discarded == all_granules ? list::discarded : list::used);
}

void managed_memory::access_remote(range r, std::uint32_t id, granule_set touched, access_mode mode,
                                   operation& now) {
  const byte_count bytes = bytes_within(r, id, touched);
  const bool reads = mode != access_mode::write, writes = mode != access_mode::read;
  if (reads) now.clock.work(prices_.remote_read(bytes));
  if (writes) now.clock.work(prices_.remote_write(bytes));
  now.traffic.remote_bytes += bytes * (reads && writes ? 2 : 1);
  const std::uint64_t threshold = prices_.of().access_counter_threshold;
  if (threshold == 0 || advised(entries_[id], advice::preferred_host)) return;
  granule_set often = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    if ((touched >> g & 1U) == 0) continue;
    std::uint32_t& seen = accesses_[std::size_t{id} * granules_per_block + g];
    seen += static_cast<std::uint32_t>(bytes_within(r, id, granule_set{1} << g) / counted_bytes);
    if (seen < threshold) continue;
    seen = 0;
    often |= granule_set{1} << g;
  }
  if (often == 0) return;
  now.clock.work(prices_.of().batch_ns + prices_.of().service_ns);
  make_resident(id, grown(entries_[id].device, often), false, &managed_traffic::fault_bytes, now);
  now.clock.wait_for_copies();
}

// --- the CPU ---

managed_traffic managed_memory::touch_by_host(range r, access_mode mode) {
  refuse_outside(r);
  operation now = begin();
  if (r.bytes == 0) return now.traffic;
  const cover c = covered(r);
  const bool writes = mode != access_mode::read;
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    const entry& b = entries_[id];
    while (true) {
      const granule_set mine = b.host & b.host_mapped & (writes ? ~b.device : all_granules);
      const granule_set missing = c.of(id) & ~mine;
      if (missing == 0) break;
      if (!host_fault(r, id, first_of(missing, 1), writes, now)) break;
    }
  }
  return end(now);
}

// Data that prefers the device leaves it by single pages, which are accounted for alone: their
// granule stays there. False: nothing to look at again.
bool managed_memory::host_fault(range r, std::uint32_t id, granule_set asked, bool writes, operation& now) {
  entry& b = entries_[id];
  const uvm_costs& costs = prices_.of();
  if (advised(b, advice::preferred_device) && (b.device & asked) != 0 && !advised(b, advice::read_mostly)) {
    const range block{id * managed_block, managed_block};
    const byte_count begin = std::max(r.offset, block.offset),
                     end = std::min(r.offset + r.bytes, block.offset + block.bytes);
    const byte_count pages = (round_up(end, page_bytes) - round_down(begin, page_bytes)) / page_bytes;
    now.clock.work(static_cast<nanoseconds>(pages) *
                   (costs.host_fault_ns + costs.host_map_page_ns + costs.migrate_copy_ns));
    now.traffic.host_fault_bytes += pages * page_bytes;
    return false;
  }
  now.clock.work(costs.host_fault_ns);
  const granule_set want = grown(b.host & b.host_mapped, asked);
  const granule_set leaves = want & b.device & ~b.host & ~b.discarded;
  populate_host(b, want, leaves, now);
  if (leaves != 0) now.clock.copy_to_host(leaves);
  now.clock.wait_for_copies();
  now.traffic.host_fault_bytes += count(leaves) * granule_bytes;
  now.clock.work(costs.host_map_page_ns * pages_per_granule * count(want & ~b.host_mapped));
  b.host |= want;
  b.host_mapped |= want;
  b.discarded &= ~want;
  if (writes || !advised(b, advice::read_mostly)) b.device &= ~want;
  map_remotely(b);
  settle(id);
  return true;
}

}  // namespace um
