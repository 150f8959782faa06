#include "simulator/block_table.hpp"

#include <array>
#include <limits>
#include <stdexcept>
#include <string>

namespace um {
namespace {

constexpr std::array victim_lists{chunk_list::unused, chunk_list::discarded, chunk_list::used};

constexpr std::uint8_t advice_bit(advice hint) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(hint));
}

}  // namespace

bool is_advised(const block_entry& b, advice hint) {
  return (b.advice_bits & advice_bit(hint)) != 0;
}

bool is_accessed_remotely(const block_entry& b) {
  if (b.advice_bits == 0) return false;
  if (is_advised(b, advice::read_mostly) || is_advised(b, advice::preferred_device)) return false;
  return is_advised(b, advice::preferred_host) || is_advised(b, advice::accessed_by_device);
}

void map_if_accessed_remotely(block_entry& b) {
  if (is_accessed_remotely(b)) b.remote = b.host;
}

granule_set accessible_without_fault(const block_entry& b, bool writes) {
  if (writes && is_advised(b, advice::read_mostly)) return 0;
  const granule_set here = writes ? b.device & ~(b.host | b.discarded) : b.device;
  return here | b.remote;
}

granule_set granules_made_resident(const block_entry& b, granule_set asked, bool writes) {
  const granule_set dead = writes ? asked & b.discarded : 0, rest = asked & ~dead;
  return asked | (with_prefetched_granules(b.device | dead, rest) & ~b.discarded);
}

block_cover cover_of(range r) {
  const byte_count last = r.offset + r.bytes - 1;
  const auto granule_of = [](byte_count at) {
    return static_cast<unsigned>(at % managed_block / granule_bytes);
  };
  block_cover c{static_cast<std::uint32_t>(r.offset / managed_block),
                static_cast<std::uint32_t>(last / managed_block)};
  c.first_granules = granules_between(granule_of(r.offset), granules_per_block);
  c.last_granules = granules_between(0, granule_of(last) + 1);
  if (c.first == c.last) c.first_granules = c.last_granules = c.first_granules & c.last_granules;
  return c;
}

block_table::block_table(byte_count arena_bytes, std::uint64_t capacity_blocks) : capacity_(capacity_blocks) {
  const std::uint64_t blocks = arena_bytes / managed_block + (arena_bytes % managed_block != 0 ? 1 : 0);
  if (blocks > std::numeric_limits<std::uint32_t>::max() / 2) {
    throw std::invalid_argument("a managed arena of " + to_text(arena_bytes) +
                                " has more blocks than the simulator counts: choose a smaller network");
  }
  if (blocks > 0 && capacity_ == 0) {
    throw std::invalid_argument("managed memory needs a capacity of at least one 2 MiB block");
  }
  count_ = static_cast<std::uint32_t>(blocks);
  entries_.resize(blocks + victim_lists.size());
  for (const chunk_list l : victim_lists) {
    const std::uint32_t s = sentinel(l);
    entries_[s].previous = entries_[s].next = s;
  }
}

void block_table::require_inside(range r) const {
  const byte_count arena = count_ * managed_block;
  if (r.offset > arena || r.bytes > arena - r.offset) {
    throw std::out_of_range("bytes " + std::to_string(r.offset) + " + " + std::to_string(r.bytes) +
                            " lie outside the managed arena of " + std::to_string(arena));
  }
}

void block_table::advise(range r, advice hint) {
  require_inside(r);
  if (r.bytes == 0) return;
  const block_cover c = cover_of(r);
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    block_entry& b = entries_[id];
    b.advice_bits |= advice_bit(hint);
    if (!is_accessed_remotely(b)) b.remote = 0;
    map_if_accessed_remotely(b);
  }
}

std::optional<std::uint32_t> block_table::evict_first_victim() {
  for (const chunk_list l : victim_lists) {
    const std::uint32_t id = entries_[sentinel(l)].next;
    if (id == sentinel(l)) continue;
    unlink(id);
    --chunks_in_use_;
    ++evictions_;
    return id;
  }
  return std::nullopt;
}

void block_table::append(std::uint32_t id, chunk_list to) {
  unlink(id);
  const std::uint32_t s = sentinel(to);
  block_entry& b = entries_[id];
  b.list = to;
  b.next = s;
  b.previous = entries_[s].previous;
  entries_[b.previous].next = id;
  entries_[s].previous = id;
}

void block_table::unlink(std::uint32_t id) {
  block_entry& b = entries_[id];
  if (b.list == chunk_list::none) return;
  entries_[b.previous].next = b.next;
  entries_[b.next].previous = b.previous;
  b.list = chunk_list::none;
}

}  // namespace um
