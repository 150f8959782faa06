#include "simulator/managed_memory.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "simulator/driver_operation.hpp"

namespace um {

managed_memory::managed_memory(byte_count arena_bytes, std::uint64_t capacity_blocks, const machine& on)
    : blocks_(arena_bytes, capacity_blocks),
      times_(on),
      counters_(blocks_.size(), on.uvm.access_counter_threshold) {}

managed_block_state managed_memory::state(std::uint64_t block) const {
  if (block >= blocks_.size()) throw std::out_of_range("no managed block " + std::to_string(block));
  const block_entry& b = blocks_[static_cast<std::uint32_t>(block)];
  return {b.device, b.host, b.discarded, b.host_mapped, b.remote, b.visited, b.list != chunk_list::none};
}

void managed_memory::place_on_host(range r, bool seen) {
  blocks_.require_inside(r);
  if (r.bytes == 0) return;
  const block_cover c = cover_of(r);
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    block_entry& b = blocks_[id];
    b.host |= c.granules_of(id);
    b.host_pages |= host_pages_to_allocate(b, c.granules_of(id), times_.costs());
    if (seen) {
      b.visited = true;
    } else {
      b.host_mapped |= c.granules_of(id);
    }
  }
}

managed_traffic managed_memory::touch(range r, access_mode mode, touch_pattern how, bool driver_is_busy) {
  blocks_.require_inside(r);
  if (r.bytes == 0) return {};
  return kernel_faults(blocks_, counters_, times_, r, mode, how, driver_is_busy).run();
}

bool managed_memory::would_hit(range r, access_mode mode) const {
  blocks_.require_inside(r);
  if (r.bytes == 0) return true;
  const block_cover c = cover_of(r);
  const bool writes = mode != access_mode::read;
  for (std::uint32_t id = c.first; id <= c.last; ++id) {
    const block_entry& b = blocks_[id];
    if (b.remote != 0 || (c.granules_of(id) & ~accessible_without_fault(b, writes)) != 0) return false;
  }
  return true;
}

std::vector<range> managed_memory::missing_ranges(const std::vector<range>& runs, access_mode mode) const {
  std::vector<range> all;
  const auto add = [&](byte_count begin, byte_count end) {
    if (!all.empty() && all.back().offset + all.back().bytes == begin) {
      all.back().bytes += end - begin;
    } else {
      all.push_back({begin, end - begin});
    }
  };
  for (const range& r : runs) {
    blocks_.require_inside(r);
    if (r.bytes == 0) continue;
    const block_cover c = cover_of(r);
    for (std::uint32_t id = c.first; id <= c.last; ++id) {
      const block_entry& b = blocks_[id];
      const granule_set absent =
          c.granules_of(id) & (~accessible_without_fault(b, mode != access_mode::read) | b.remote);
      for (unsigned g = 0; absent != 0 && g < granules_per_block; ++g) {
        if ((absent >> g & 1U) == 0) continue;
        const byte_count begin = id * managed_block + g * granule_bytes;
        add(std::max(begin, r.offset), std::min(begin + granule_bytes, r.offset + r.bytes));
      }
    }
  }
  return all;
}

managed_traffic managed_memory::prefetch_to_device(range r, bool queued) {
  blocks_.require_inside(r);
  return r.bytes == 0 ? managed_traffic{} : driver::prefetch_to_device(blocks_, times_, r, queued);
}

managed_traffic managed_memory::prefetch_to_host(range r) {
  blocks_.require_inside(r);
  return r.bytes == 0 ? managed_traffic{} : driver::prefetch_to_host(blocks_, times_, r);
}

managed_traffic managed_memory::discard(range r) {
  blocks_.require_inside(r);
  return driver::discard(blocks_, times_, r);
}

managed_traffic managed_memory::touch_by_host(range r, access_mode mode) {
  blocks_.require_inside(r);
  return r.bytes == 0 ? managed_traffic{}
                      : driver::touch_by_host(blocks_, times_, r, mode != access_mode::read);
}

}  // namespace um
