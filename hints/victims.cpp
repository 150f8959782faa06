#include <algorithm>
#include <limits>
#include <tuple>

#include "hints/make_room.hpp"

namespace um {
namespace {

constexpr position never = std::numeric_limits<position>::max();

}  // namespace

void block_set::clear() {
  ++round_;
  members_.clear();
}

void block_set::add(const range& r) {
  const auto [begin, end] = blocks_of(r);
  for (std::size_t b = begin; b < end; ++b) {
    if (contains(b)) continue;
    added_in_round_[b] = round_;
    members_.push_back(b);
  }
}

// --- the order ---

eviction_rank victim_order::rank_of(const evictable_part& x, position now,
                                    std::uint64_t first_arrival) const {
  using enum eviction_rank::rank_kind;
  if (options_.order == evict_order::driver && options_.is_discarded.empty())
    return {may_leave, first_arrival};
  const position next = next_use(x, now);
  const bool furthest = options_.order == evict_order::furthest_use;
  if (next == never && is_discarded(x)) {
    // Of dead parts, the one whose next write is last is evicted first.
    return {dead, x.uses.empty() ? 0 : static_cast<std::uint64_t>(never - x.uses.front())};
  }
  if (next == never) return {furthest ? dead : may_leave, first_arrival};
  const eviction_rank::rank_kind what =
      options_.is_evictable.empty() || options_.is_evictable[x.tensor] ? may_leave : last_resort;
  if (furthest) return {what, static_cast<std::uint64_t>(never - next)};
  const bool soon =
      options_.order == evict_order::not_soon && std::min(next, iteration_end_) - now <= options_.min_gap;
  return {soon ? last_resort : what, first_arrival};
}

action victim_order::eviction_of(const evictable_part& x, position now) const {
  if (next_use(x, now) == never && is_discarded(x) && x.shares_no_block) return discard{x.tensor, x.region};
  return evict{x.tensor, x.region};
}

// Position of the part's next use. Positions of the next iteration follow those of this one.
position victim_order::next_use(const evictable_part& x, position now) const {
  const role use = graph_.tensors[x.tensor].role;
  const auto at = std::ranges::lower_bound(x.uses, now);
  const bool is_first = at == x.uses.begin();
  if (at != x.uses.end() && (!is_first || persists(use))) return *at;
  // A result that a user reads after an iteration is dead once the next iteration begins.
  if (!survives(use) || x.uses.empty() || (is_first && !persists(use))) return never;
  return iteration_end_ + x.uses.front();
}

// --- what is resident ---

resident_parts::resident_parts(const graph& g, const memory_plan& draft, const placement& at,
                               const evictable_parts& parts, const eviction_options& rules)
    : draft_(draft),
      placement_(at),
      parts_(parts),
      ledger_(g, draft.residences, at.managed, at.addresses.managed_bytes),
      order_(g, rules, static_cast<position>(parts.order.size())),
      last_arrival_(ledger_.block_count(), 0),
      may_be_resident_(parts.parts.size(), true) {}

void resident_parts::apply(const action& a, position now) {
  if (const auto* f = std::get_if<prefetch>(&a); f != nullptr && is_managed(draft_.residences[f->tensor])) {
    const range r = placement_.managed.range_of(f->tensor, f->part);
    record_arrival(f->tensor, std::span(&r, 1), true);
  } else if (std::holds_alternative<compute>(a)) {
    for (const managed_operand& o : parts_.operands[static_cast<std::size_t>(now)])
      record_arrival(o.tensor, o.touched_ranges, false);
  }
  ledger_.apply(a);
}

void resident_parts::record_arrival(tensor_id t, std::span<const range> ranges, bool also_if_resident) {
  ++clock_;  // operands arrive one after the other
  const auto note = [&](tensor_id owner) {
    for (std::size_t x = parts_.first_part[owner]; x < parts_.first_part[owner + 1]; ++x)
      may_be_resident_[x] = true;
  };
  note(t);
  for (const range& r : ranges) {
    const auto [begin, end] = blocks_of(r);
    for (std::size_t b = begin; b < end; ++b) {
      if (!also_if_resident && ledger_.is_resident(b)) continue;
      last_arrival_[b] = clock_;
      const tensor_id owner =
          ledger_.owner(b);  // the owner may be another tensor until a compute takes the block over
      if (owner != t && owner != block_ledger::no_owner) note(owner);
    }
  }
}

void resident_parts::for_each_owned_block(const evictable_part& x, const auto& use_block) const {
  const auto [begin, end] = blocks_of(x.address_range);
  for (std::size_t b = begin; b < end; ++b) {
    if (ledger_.is_resident(b) && ledger_.owner(b) == x.tensor) use_block(b);
  }
}

bool resident_parts::is_resident(const evictable_part& x) const {
  bool any = false;
  for_each_owned_block(x, [&](std::size_t) { any = true; });
  return any;
}

std::uint64_t resident_parts::resident_blocks_with(const block_set& wanted) const {
  std::uint64_t count = ledger_.resident_count();
  for (const std::size_t b : wanted.members()) count += ledger_.is_resident(b) ? 0 : 1;
  return count;
}

std::optional<std::vector<std::size_t>> resident_parts::choose_victims(position now, const block_set& wanted,
                                                                       const block_set& spared,
                                                                       std::uint64_t most,
                                                                       std::uint64_t limit) {
  std::uint64_t count = resident_blocks_with(wanted);
  std::vector<std::size_t> chosen;
  if (count <= most) return chosen;
  std::vector<candidate> all = find_candidates(now, wanted, spared);
  std::ranges::sort(all, {}, [](const candidate& c) { return std::tuple(c.rank, c.first_block, c.part); });
  for (const candidate& c : all) {
    if (count <= most) break;
    count -= c.freed_blocks;
    chosen.push_back(c.part);
  }
  if (count > limit) return std::nullopt;
  return chosen;
}

std::vector<resident_parts::candidate> resident_parts::find_candidates(position now, const block_set& wanted,
                                                                       const block_set& spared) {
  std::vector<candidate> all;
  for (std::size_t i = 0; i < parts_.parts.size(); ++i) {
    if (!may_be_resident_[i]) continue;
    candidate v{{}, ledger_.block_count(), i, 0};
    std::uint64_t first_arrival = std::numeric_limits<std::uint64_t>::max();
    bool any = false;
    for_each_owned_block(parts_.parts[i], [&](std::size_t b) {
      any = true;
      v.freed_blocks += wanted.contains(b) ? 0 : 1;
      if (spared.contains(b)) return;
      v.first_block = std::min(v.first_block, b);
      first_arrival = std::min(first_arrival, last_arrival_[b]);
    });
    may_be_resident_[i] = any;
    if (v.first_block == ledger_.block_count()) continue;
    v.rank = order_.rank_of(parts_.parts[i], now, first_arrival);
    all.push_back(v);
  }
  return all;
}

}  // namespace um
