#include "core/residency.hpp"

#include <algorithm>

#include "core/memory_plan.hpp"

namespace um {
block_ledger::block_ledger(const graph& g, const std::vector<residence>& home, const managed_map& managed,
                           byte_count arena_bytes)
    : g_(g),
      home_(home),
      managed_(managed),
      resident_(arena_bytes / managed_block, false),
      is_filled_(resident_),
      owners_(resident_.size(), no_owner),
      was_touched_(g.tensors.size(), false) {
  // The first iteration starts with the owners that every iteration ends with.
  std::vector<tensor_id> order;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (is_managed(home[t]) && managed.is_touched(t)) order.push_back(t);
  }
  std::ranges::stable_sort(order, {}, [&](tensor_id t) { return managed.lifetime_of(t).begin; });
  for (const tensor_id t : order) take_ownership(t);
}

void block_ledger::take_ownership(tensor_id t) {
  const auto [begin, end] = blocks_of(managed_.range_of(t, {}));
  for (std::size_t b = begin; b < end; ++b) owners_[b] = is_block_sized(g_.tensors[t]) ? t : no_owner;
}

// Makes the blocks of a range resident. Returns the ranges of blocks that change. A block in which only small
// tensors were touched before still changes if `fills_blocks`: the rest of it becomes resident.
std::vector<range> block_ledger::add_blocks(const range& r, bool fills_blocks) {
  std::vector<range> changed;
  const auto [begin, end] = blocks_of(r);
  for (std::size_t b = begin; b < end; ++b) {
    const bool fills_up = fills_blocks && !is_filled_[b];
    if (fills_blocks) is_filled_[b] = true;
    if (resident_[b] && !fills_up) continue;
    if (!resident_[b]) ++resident_count_;
    resident_[b] = true;
    const byte_count at = b * managed_block;
    if (!changed.empty() && changed.back().offset + changed.back().bytes == at) {
      changed.back().bytes += managed_block;
    } else {
      changed.push_back({at, managed_block});
    }
  }
  return changed;
}

void block_ledger::release_blocks(tensor_id t, const range& r) {
  const auto [begin, end] = blocks_of(r);
  for (std::size_t b = begin; b < end; ++b) {
    if (owners_[b] != t) continue;
    is_filled_[b] = false;
    if (resident_[b]) --resident_count_;
    resident_[b] = false;
  }
}

void block_ledger::touch_operands(const compute& x, residency_change& c) {
  for (const access& a : accesses_of(g_, x)) {
    if (!is_managed(home_[a.tensor])) continue;
    if (!was_touched_[a.tensor]) take_ownership(a.tensor);
    was_touched_[a.tensor] = true;
    const tensor& t = g_.tensors[a.tensor];
    for (const range& r : runs_of(t, a.where)) {
      const range there{managed_.offset_of(a.tensor) + r.offset, r.bytes};
      if (!add_blocks(there, is_block_sized(t)).empty()) c.added.push_back(there);
    }
  }
}

residency_change block_ledger::apply(const action& a) {
  residency_change c;
  const std::uint64_t before = resident_count_;
  std::visit(overloaded{[](const advise&) {}, [&](const compute& x) { touch_operands(x, c); },
                        [&](const prefetch& x) {
                          if (is_managed(home_[x.tensor]))
                            c.added = add_blocks(managed_.range_of(x.tensor, x.part), true);
                        },
                        [&](const evict& x) {
                          if (is_managed(home_[x.tensor]))
                            release_blocks(x.tensor, managed_.range_of(x.tensor, x.part));
                        },
                        [&](const discard& x) {
                          if (is_managed(home_[x.tensor]))
                            release_blocks(x.tensor, managed_.discardable_range(x.tensor, x.part));
                        }},
             a);
  c.released_blocks = before > resident_count_ ? before - resident_count_ : 0;
  return c;
}

bool block_ledger::is_fully_resident(const range& r) const {
  const auto [begin, end] = blocks_of(r);
  for (std::size_t b = begin; b < end; ++b) {
    if (!resident_[b] || !is_filled_[b]) return false;
  }
  return true;
}

std::int32_t residency::release_to_wait_for(std::size_t at, std::uint64_t capacity) const {
  if (changes[at].added.empty() || resident_blocks[at] > capacity) return -1;
  std::uint64_t spare = capacity - resident_blocks[at];
  for (std::size_t k = at; k-- > 0;) {
    if (changes[k].released_blocks > spare) return static_cast<std::int32_t>(k);
    spare -= changes[k].released_blocks;
  }
  return -1;
}

residency residency_of(const graph& g, const memory_plan& plan, const layout& at,
                       const managed_map& managed) {
  residency all;
  all.live_device_bytes = at.live_device_bytes;
  block_ledger blocks(g, plan.residences, managed, at.managed_bytes);
  for (int iteration = 0; iteration < 2; ++iteration) {
    all.changes.clear();
    all.resident_blocks.clear();
    blocks.begin_iteration();
    for (const action& a : plan.actions) {
      all.changes.push_back(blocks.apply(a));
      all.resident_blocks.push_back(blocks.resident_count());
    }
  }
  return all;
}

}  // namespace um
