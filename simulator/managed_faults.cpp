// What kernels and the CPU touch, and how the driver answers.
#include <algorithm>

#include "simulator/managed_memory.hpp"

namespace um {
namespace {

constexpr byte_count counted_bytes = 128;  // one access, as the GPU counts them

// The driver fetches at most 256 faults at a time [uvm_perf_fault_batch_count].
constexpr unsigned full_batch = 256;

// A random number's successor.
std::uint64_t next_of(std::uint64_t seed) {
  return seed * 6364136223846793005U + 1442695040888963407U;
}

// Of these granules of the block every stride-th, counted from where block `first` has byte `from`.
granule_set strided(granule_set of, std::uint32_t id, std::uint32_t first, unsigned stride, byte_count from) {
  if (stride <= 1) return of;
  const byte_count origin = from % managed_block / granule_bytes;
  granule_set s = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    const std::uint64_t at = std::uint64_t{id - first} * granules_per_block + g;
    if (at >= origin && (at - origin) % stride == 0) s |= granule_set{1} << g;
  }
  return s & of;
}

// So many of the set, chosen without a pattern.
granule_set some_of(granule_set s, unsigned n, std::uint64_t seed) {
  if (count(s) <= n) return s;
  granule_set taken = 0;
  while (count(taken) < n) {
    seed = next_of(seed);
    const granule_set one = granule_set{1} << (seed >> 59U);
    if ((s & one) != 0) taken |= one;
  }
  return taken;
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

// What a kernel touches of them: of a sparse touch a page each.
byte_count touched_within(range r, std::uint32_t id, granule_set granules, touch_pattern how) {
  const byte_count all = bytes_within(r, id, granules);
  return how.sparse ? std::min(all, count(granules) * page_bytes) : all;
}

}  // namespace

// A write to data that is mapped read-only faults: read-mostly data with a copy, and discarded data.
granule_set managed_memory::ready(const entry& b, bool writes) const {
  if (writes && advised(b, advice::read_mostly)) return 0;
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

// Discarded data comes by itself when it is written, and no tree takes it along.
granule_set managed_memory::served(const entry& b, granule_set asked, bool writes) const {
  const granule_set dead = writes ? asked & b.discarded : 0, rest = asked & ~dead;
  return asked | (grown(b.device | dead, rest) & ~b.discarded);
}

std::vector<range> managed_memory::missing(const std::vector<range>& runs, access_mode mode) const {
  std::vector<range> all;
  const auto add = [&](byte_count begin, byte_count end) {
    if (!all.empty() && all.back().offset + all.back().bytes == begin) {
      all.back().bytes += end - begin;
    } else {
      all.push_back({begin, end - begin});
    }
  };
  for (const range& r : runs) {
    refuse_outside(r);
    if (r.bytes == 0) continue;
    const cover c = covered(r);
    for (std::uint32_t id = c.first; id <= c.last; ++id) {
      const entry& b = entries_[id];
      const granule_set waits = c.of(id) & (~ready(b, mode != access_mode::read) | b.remote);
      for (unsigned g = 0; waits != 0 && g < granules_per_block; ++g) {
        if ((waits >> g & 1U) == 0) continue;
        const byte_count begin = id * managed_block + g * granule_bytes;
        add(std::max(begin, r.offset), std::min(begin + granule_bytes, r.offset + r.bytes));
      }
    }
  }
  return all;
}

// Of every block that lacks something a batch has as many faults as of the others. What is on the device when
// its turn comes is used then and not looked at again.
void managed_memory::touch_shuffled(range r, access_mode mode, const cover& c, operation& now) {
  const bool writes = mode != access_mode::read;
  const unsigned most = most_of_batch(now.how);
  std::vector<fault> todo;
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    const fault all{id, strided(c.of(id), id, c.first, now.how.stride, r.offset)};
    if (writes && advised(entries_[id], advice::read_mostly)) {
      if (all.granules != 0) write_read_mostly(r, all, now);
    } else {
      todo.push_back(all);
    }
  }
  std::uint64_t seed = 1;
  for (std::size_t i = todo.size(); i > 1; --i) {
    seed = next_of(seed);
    std::swap(todo[i - 1], todo[(seed >> 33U) % i]);
  }
  while (!todo.empty()) {
    const auto share = std::max(1U, most / static_cast<unsigned>(std::min<std::size_t>(todo.size(), most)));
    unsigned waiting = 0;
    const auto serve = [&] {
      if (waiting > 0) service_batch(writes, now);
      now.busy = true;
      waiting = 0;
    };
    for (fault& f : todo) {
      const entry& b = entries_[f.block];
      if ((b.remote & f.granules) != 0) access_remote(r, f.block, b.remote & f.granules, mode, now);
      f.granules &= ~ready(b, writes);
      if (f.granules == 0) continue;
      seed = next_of(seed);
      const granule_set asked = some_of(f.granules, std::min(share, most - waiting), seed);
      batch_.push_back({f.block, asked});
      waiting += count(asked);
      if (!stays_on_host(b)) f.granules &= ~asked;
      if (waiting == most) serve();
    }
    serve();
    std::erase_if(todo, [](const fault& f) { return f.granules == 0; });
  }
}

// A fault for every page that is touched, and the block comes to the device.
void managed_memory::write_read_mostly(range r, const fault& f, operation& now) {
  entry& b = entries_[f.block];
  now.clock.work(prices_.of().service_ns);
  ++now.traffic.services;
  ++now.traffic.batches;
  now.traffic.fault_groups += count(f.granules);
  const byte_count bytes = touched_within(r, f.block, f.granules, now.how);
  b.discarded &= ~f.granules;
  make_resident(f.block, f.granules, false, &managed_traffic::fault_bytes, now);
  now.clock.work(prices_.of().read_mostly_write_ns *
                 static_cast<nanoseconds>((bytes + page_bytes - 1) / page_bytes));
  now.clock.wait_for_copies();
  now.busy = true;
}

managed_traffic managed_memory::touch(range r, access_mode mode, touch_pattern how, bool busy) {
  refuse_outside(r);
  operation now = begin(busy);
  now.how = how;
  now.in_no_order = !how.one_by_one;
  if (r.bytes == 0) return now.traffic;
  const cover c = covered(r);
  const bool writes = mode != access_mode::read;
  const unsigned most = most_of_batch(how);
  unsigned waiting = 0;
  batch_.clear();
  if (how.shuffled) {
    touch_shuffled(r, mode, c, now);
    return end(now);
  }
  const auto serve = [&] {
    service_batch(writes, now);
    now.busy = true;
    waiting = 0;
  };
  for (std::uint32_t id = c.first; id <= c.last;) {
    const entry& b = entries_[id];
    const granule_set needed = strided(c.of(id), id, c.first, how.stride, r.offset);
    if (writes && advised(b, advice::read_mostly)) {
      if (waiting > 0) serve();
      if (needed != 0) write_read_mostly(r, {id, needed}, now);
      ++id;
      continue;
    }
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
    } else if ((missing & ~served(b, asked, writes)) != 0) {
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
  return how.sparse || how.shuffled ? full_batch / static_cast<unsigned>(costs.faults_of_page)
                                    : static_cast<unsigned>(costs.batch_granules);
}

// A streaming kernel fills a batch with the faults of batch_granules.
nanoseconds managed_memory::fetching(unsigned granules, touch_pattern how) const {
  const uvm_costs& costs = prices_.of();
  if (how.one_by_one) return costs.fault_ns * granules;
  if (how.sparse || how.shuffled)
    return costs.fault_ns * granules * static_cast<nanoseconds>(costs.faults_of_page);
  return costs.fault_ns * granules * full_batch / static_cast<nanoseconds>(costs.batch_granules);
}

void managed_memory::service_batch(bool writes, operation& now) {
  const uvm_costs& costs = prices_.of();
  if (!now.busy) now.clock.work(costs.interrupt_ns);
  ++now.traffic.batches;
  unsigned granules = 0;
  for (const fault& f : batch_) granules += count(f.granules);
  now.traffic.fault_groups += granules;
  const bool stream_of_reads = !writes && !now.how.one_by_one && !now.how.sparse && !now.how.shuffled;
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
  populate_host(b, fresh, now);
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

// What was accessed often enough before comes to the device now; the rest is read and written where it lies.
// The driver learns of a full counter while the kernel goes on, so a pass ends over the link.
void managed_memory::access_remote(range r, std::uint32_t id, granule_set touched, access_mode mode,
                                   operation& now) {
  const granule_set often = often_accessed(r, id, touched, now.how);
  if (often != 0) {
    now.clock.work(prices_.of().batch_ns + prices_.of().service_ns);
    make_resident(id, grown(entries_[id].device, often), false, &managed_traffic::fault_bytes, now);
    now.clock.wait_for_copies();
  }
  const byte_count bytes = touched_within(r, id, touched & ~entries_[id].device, now.how);
  const bool reads = mode != access_mode::write, writes = mode != access_mode::read;
  if (reads) now.clock.work(prices_.remote_read(bytes));
  if (writes) now.clock.work(prices_.remote_write(bytes));
  now.traffic.remote_bytes += bytes * (reads && writes ? 2 : 1);
}

// Counts the accesses of this touch, and forgets those of granules whose counter was full before.
granule_set managed_memory::often_accessed(range r, std::uint32_t id, granule_set touched,
                                           touch_pattern how) {
  const std::uint64_t threshold = prices_.of().access_counter_threshold;
  if (threshold == 0 || advised(entries_[id], advice::preferred_host)) return 0;
  granule_set often = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    if ((touched >> g & 1U) == 0) continue;
    std::uint32_t& seen = accesses_[std::size_t{id} * granules_per_block + g];
    if (seen >= threshold) {
      seen = 0;
      often |= granule_set{1} << g;
    } else {
      seen += static_cast<std::uint32_t>(touched_within(r, id, granule_set{1} << g, how) / counted_bytes);
    }
  }
  return often;
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
  populate_host(b, want, now);
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
