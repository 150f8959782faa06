#include "simulator/managed_memory.hpp"

#include <limits>
#include <stdexcept>
#include <string>

namespace um {

namespace {

constexpr std::uint8_t bit(advice hint) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(hint));
}

}  // namespace

managed_traffic& managed_traffic::operator+=(const managed_traffic& other) {
  time += other.time;
  batches += other.batches;
  fault_groups += other.fault_groups;
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

managed_memory::managed_memory(byte_count arena_bytes, std::uint64_t capacity_blocks, const machine& on)
    : capacity_(capacity_blocks), prices_(on) {
  const std::uint64_t blocks = arena_bytes / managed_block + (arena_bytes % managed_block != 0 ? 1 : 0);
  if (blocks > std::numeric_limits<std::uint32_t>::max() / 2) {
    throw std::invalid_argument("a managed arena of " + to_text(arena_bytes) +
                                " has more blocks than the simulator counts: choose a smaller network");
  }
  if (blocks > 0 && capacity_ == 0) {
    throw std::invalid_argument("managed memory needs a capacity of at least one 2 MiB block");
  }
  count_ = static_cast<std::uint32_t>(blocks);
  entries_.resize(blocks + 3);
  for (const list l : {list::unused, list::discarded, list::used}) {
    const std::uint32_t s = sentinel(l);
    entries_[s].previous = entries_[s].next = s;
  }
  if (prices_.of().access_counter_threshold > 0) accesses_.resize(blocks * granules_per_block);
}

managed_block_state managed_memory::state(std::uint64_t block) const {
  if (block >= count_) throw std::out_of_range("no managed block " + std::to_string(block));
  const entry& b = entries_[block];
  return {b.device, b.host, b.discarded, b.host_mapped, b.remote, b.visited, b.in != list::none};
}

void managed_memory::place_on_host(range r, bool seen) {
  refuse_outside(r);
  if (r.bytes == 0) return;
  const cover c = covered(r);
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    entry& b = entries_[id];
    b.host |= c.of(id);
    b.host_pages |= host_chunk_around(b, c.of(id));
    if (seen) {
      b.visited = true;
    } else {
      b.host_mapped |= c.of(id);
    }
  }
}

void managed_memory::refuse_outside(range r) const {
  const byte_count arena = count_ * managed_block;
  if (r.offset > arena || r.bytes > arena - r.offset) {
    throw std::out_of_range("bytes " + std::to_string(r.offset) + " + " + std::to_string(r.bytes) +
                            " lie outside the managed arena of " + std::to_string(arena));
  }
}

managed_memory::cover managed_memory::covered(range r) const {
  const byte_count last = r.offset + r.bytes - 1;
  const auto granule_of = [](byte_count at) {
    return static_cast<unsigned>(at % managed_block / granule_bytes);
  };
  cover c{static_cast<std::uint32_t>(r.offset / managed_block),
          static_cast<std::uint32_t>(last / managed_block)};
  c.in_first = between(granule_of(r.offset), granules_per_block);
  c.in_last = between(0, granule_of(last) + 1);
  if (c.first == c.last) c.in_first = c.in_last = c.in_first & c.in_last;
  return c;
}

granule_set managed_memory::cover::of(std::uint32_t id) const {
  return id == first ? in_first : id == last ? in_last : all_granules;
}

bool managed_memory::advised(const entry& b, advice hint) const {
  return (b.hints & bit(hint)) != 0;
}

// Read-mostly outranks the other advice; a preferred device takes in what it touches.
bool managed_memory::stays_on_host(const entry& b) const {
  if (b.hints == 0) return false;
  if (advised(b, advice::read_mostly) || advised(b, advice::preferred_device)) return false;
  return advised(b, advice::preferred_host) || advised(b, advice::accessed_by_device);
}

void managed_memory::map_remotely(entry& b) const {
  if (stays_on_host(b)) b.remote = b.host;
}

void managed_memory::advise(range r, advice hint) {
  refuse_outside(r);
  if (r.bytes == 0) return;
  const cover c = covered(r);
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    entry& b = entries_[id];
    b.hints |= bit(hint);
    if (!stays_on_host(b)) b.remote = 0;
    map_remotely(b);
  }
}

void managed_memory::take_chunk(std::uint32_t id, operation& now) {
  entry& b = entries_[id];
  const uvm_costs& costs = prices_.of();
  const bool left = b.device == 0 && b.host != 0, fresh = b.in == list::none;
  if (fresh) {
    b.clean_chunk = held_ < capacity_;
    if (!b.clean_chunk) evict_one(now);
    ++held_;
    now.clock.work(costs.chunk_ns);
  } else if (left) {
    now.clock.work(costs.chunk_ns * static_cast<nanoseconds>(costs.chunk_again_percent) / 100);
  }
}

void managed_memory::evict_one(operation& now) {
  for (const list l : {list::unused, list::discarded, list::used}) {
    const std::uint32_t id = entries_[sentinel(l)].next;
    if (id == sentinel(l)) continue;
    unlink(id);
    --held_;
    ++evictions_;
    empty(entries_[id], now);
    return;
  }
}

// Of a victim everything resident goes to the host, in one service. evict_ns contains what is done anew.
void managed_memory::empty(entry& victim, operation& now) {
  if (victim.device == 0) {
    now.clock.work(now.anew);
    return;
  }
  now.clock.work(prices_.of().evict_ns);
  ++now.traffic.evicted_blocks;
  const granule_set leaves = victim.device & ~victim.host, out = leaves & ~victim.discarded;
  populate_host(victim, leaves, now);
  if (out != 0) {
    now.clock.copy_to_host(out);
    now.clock.room_after_copies();
    now.traffic.evicted_bytes += count(out) * granule_bytes;
  }
  victim.host |= out;
  victim.device = 0;
  map_remotely(victim);
}

// What is allocated on the host with these granules.
granule_set managed_memory::host_chunk_around(const entry& b, granule_set want) const {
  const granule_set fresh = want & ~b.host_pages;
  const bool whole = fresh != 0 && b.host_pages == 0 && prices_.of().host_chunk_bytes == managed_block;
  return whole ? all_granules : fresh;
}

void managed_memory::populate_host(entry& b, granule_set want, operation& now) {
  const granule_set fresh = host_chunk_around(b, want);
  if (fresh == 0) return;
  const uvm_costs& costs = prices_.of();
  const granule_set nowhere = fresh & ~((b.device & ~b.discarded) | b.host);
  const bool whole = costs.host_chunk_bytes == managed_block && fresh == all_granules;
  const granule_set cleared = whole && nowhere != 0 ? fresh : nowhere;
  now.clock.work((costs.host_populate_ns * count(fresh) + costs.host_clear_ns * count(cleared)) /
                 granules_per_block);
  now.traffic.host_populated_bytes += count(fresh) * granule_bytes;
  b.host_pages |= fresh;
}

// A chunk with nothing resident left is the first to be taken.
void managed_memory::settle(std::uint32_t id) {
  if (entries_[id].device == 0 && entries_[id].in != list::none) append(id, list::unused);
}

// Moves the block to the tail of a list, from wherever it was.
void managed_memory::append(std::uint32_t id, list to) {
  unlink(id);
  const std::uint32_t s = sentinel(to);
  entry& b = entries_[id];
  b.in = to;
  b.next = s;
  b.previous = entries_[s].previous;
  entries_[b.previous].next = id;
  entries_[s].previous = id;
}

void managed_memory::unlink(std::uint32_t id) {
  entry& b = entries_[id];
  if (b.in == list::none) return;
  entries_[b.previous].next = b.next;
  entries_[b.next].previous = b.previous;
  b.in = list::none;
}

managed_traffic managed_memory::end(operation& now) {
  now.clock.wait_for_copies();
  now.traffic.time = now.clock.time();
  return now.traffic;
}

}  // namespace um
