#include "simulator/managed_memory.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace um {

namespace {

constexpr std::uint8_t bit(advice hint) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(hint));
}

}  // namespace

managed_memory::managed_memory(byte_count arena_bytes, std::uint64_t capacity_blocks)
    : capacity_(capacity_blocks) {
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
}

void managed_memory::place_on_host(range r) {
  const block_run run = overlapped(r);
  for (std::uint32_t id = run.begin; id < run.end; ++id) entries_[id].on_host = true;
}

managed_traffic managed_memory::touch(range r, access_mode mode) {
  managed_traffic t;
  const block_run run = overlapped(r);
  const bool writes = mode != access_mode::read;
  for (std::uint32_t id = run.begin; id < run.end; ++id) {
    if (is_hit(entries_[id], writes)) continue;
    const byte_count begin = std::max(r.offset, id * managed_block);
    const byte_count end = std::min(r.offset + r.bytes, (id + byte_count{1}) * managed_block);
    touch_block(id, writes, (end - begin) * (mode == access_mode::accumulate ? 2 : 1), t);
  }
  return t;
}

managed_traffic managed_memory::prefetch_to_device(range r) {
  managed_traffic t;
  const block_run run = overlapped(r);
  if (run.begin == run.end) return t;
  t.prefetch_calls = 1;
  const int passes = run.end - run.begin > 1 ? 2 : 1;
  for (int pass = 0; pass < passes; ++pass) {
    for (std::uint32_t id = run.begin; id < run.end; ++id) prefetch_block(id, t);
  }
  return t;
}

managed_traffic managed_memory::prefetch_to_host(range r) {
  managed_traffic t;
  const block_run run = overlapped(r);
  if (run.begin == run.end) return t;
  t.prefetch_calls = 1;
  for (std::uint32_t id = run.begin; id < run.end; ++id) expel_block(id, t);
  return t;
}

managed_traffic managed_memory::discard(range r) {
  managed_traffic t;
  if (r.bytes == 0) return t;
  overlapped(r);  // refuses what lies outside the arena
  const std::uint64_t begin = round_up(r.offset, managed_block) / managed_block;
  const std::uint64_t end = (r.offset + r.bytes) / managed_block;
  for (std::uint64_t id = begin; id < end; ++id) {
    entry& b = entries_[id];
    b.on_device = b.on_host = false;
    b.discarded = true;
    if (b.in != list::none) append(static_cast<std::uint32_t>(id), list::unused);
    ++t.discarded_blocks;
  }
  return t;
}

void managed_memory::advise(range r, advice hint) {
  const block_run run = overlapped(r);
  for (std::uint32_t id = run.begin; id < run.end; ++id) entries_[id].hints |= bit(hint);
}

managed_block_state managed_memory::state(std::uint64_t block) const {
  if (block >= count_) throw std::out_of_range("no managed block " + std::to_string(block));
  const entry& b = entries_[block];
  return {b.on_device, b.on_host, b.discarded, b.visited, b.in != list::none};
}

managed_memory::block_run managed_memory::overlapped(range r) const {
  const byte_count arena = count_ * managed_block;
  if (r.offset > arena || r.bytes > arena - r.offset) {
    throw std::out_of_range("bytes " + std::to_string(r.offset) + " + " + std::to_string(r.bytes) +
                            " lie outside the managed arena of " + std::to_string(arena));
  }
  if (r.bytes == 0) return {};
  return {static_cast<std::uint32_t>(r.offset / managed_block),
          static_cast<std::uint32_t>((r.offset + r.bytes - 1) / managed_block + 1)};
}

bool managed_memory::advised(const entry& b, advice hint) const {
  return (b.hints & bit(hint)) != 0;
}

// Read-mostly outranks the other advice; a preferred device takes in what it touches.
bool managed_memory::stays_on_host(const entry& b) const {
  if (advised(b, advice::read_mostly) || advised(b, advice::preferred_device)) return false;
  if (advised(b, advice::preferred_host)) return true;
  return advised(b, advice::accessed_by_device) && b.on_host;
}

// A write to a resident block faults only where the mapping is read-only: discarded data, and
// read-mostly data with a copy on either side.
bool managed_memory::is_hit(const entry& b, bool writes) const {
  return b.on_device && !(writes && (b.discarded || b.on_host));
}

void managed_memory::touch_block(std::uint32_t id, bool writes, byte_count bytes, managed_traffic& t) {
  entry& b = entries_[id];
  if (b.on_device || !stays_on_host(b)) {
    fault(id, writes, t);
    return;
  }
  b.on_host = true;
  b.discarded = false;
  t.zero_copy_bytes += bytes;
}

void managed_memory::fault(std::uint32_t id, bool writes, managed_traffic& t) {
  entry& b = entries_[id];
  take_chunk(id, t);
  ++t.faulted_blocks;
  const bool rewritten = b.discarded && writes;
  if (rewritten) {
    t.rewritten_bytes += managed_block;
  } else if (b.on_device) {
    ++t.upgraded_blocks;
  } else if (b.on_host) {
    (b.visited ? t.fault_bytes : t.first_fault_bytes) += managed_block;
  } else {
    t.populated_bytes += managed_block;
  }
  append(id, b.discarded ? list::discarded : list::used);
  b.on_device = b.visited = true;
  b.on_host = b.on_host && !writes && advised(b, advice::read_mostly);
  if (writes) b.discarded = false;
}

void managed_memory::prefetch_block(std::uint32_t id, managed_traffic& t) {
  entry& b = entries_[id];
  take_chunk(id, t);
  if (!b.on_device) (b.on_host ? t.prefetched_in_bytes : t.zeroed_bytes) += managed_block;
  append(id, list::used);
  b.on_device = b.visited = true;
  b.on_host = b.on_host && advised(b, advice::read_mostly);
  b.discarded = false;
}

// Read-mostly data is copied and stays on the device as well.
void managed_memory::expel_block(std::uint32_t id, managed_traffic& t) {
  entry& b = entries_[id];
  if (!b.on_host) {
    const bool copied = b.on_device && !b.discarded;
    (copied ? t.prefetched_out_bytes : t.host_zeroed_bytes) += managed_block;
  }
  b.on_host = true;
  b.discarded = false;
  if (advised(b, advice::read_mostly) && b.on_device) {
    append(id, list::used);
    return;
  }
  b.on_device = false;
  if (b.in != list::none) append(id, list::unused);
}

void managed_memory::take_chunk(std::uint32_t id, managed_traffic& t) {
  if (entries_[id].in != list::none) return;
  if (held_ == capacity_) evict_one(t);
  ++held_;
}

void managed_memory::evict_one(managed_traffic& t) {
  for (const list l : {list::unused, list::discarded, list::used}) {
    const std::uint32_t id = entries_[sentinel(l)].next;
    if (id == sentinel(l)) continue;
    entry& victim = entries_[id];
    unlink(id);
    --held_;
    if (!victim.on_device) return;
    ++t.evicted_blocks;
    if (!victim.discarded) {
      if (!victim.on_host) t.evicted_bytes += managed_block;
      victim.on_host = true;
    }
    victim.on_device = false;
    return;
  }
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

}  // namespace um
