#include "hints/victims.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace um {
namespace {

constexpr position never = std::numeric_limits<position>::max();

}  // namespace

void block_set::clear() {
  ++now_;
  members_.clear();
}

void block_set::add(const range& r) {
  const auto [begin, end] = blocks_of(r);
  for (std::size_t b = begin; b < end; ++b) {
    if (has(b)) continue;
    stamp_[b] = now_;
    members_.push_back(b);
  }
}

// --- the order ---

urgency victim_order::urgency_of(const leaving_part& x, position now, std::uint64_t came_in) const {
  using enum urgency::kind;
  if (rules_.order == evict_order::driver && rules_.discards.empty()) return {may_leave, came_in};
  const position next = next_use(x, now);
  const bool furthest = rules_.order == evict_order::furthest_use;
  if (next == never && is_discarded(x)) {
    // What is written again last need not be populated soon.
    return {dead, x.uses.empty() ? 0 : static_cast<std::uint64_t>(never - x.uses.front())};
  }
  if (next == never) return {furthest ? dead : may_leave, came_in};
  const urgency::kind what = rules_.leaves.empty() || rules_.leaves[x.what] ? may_leave : last_resort;
  if (furthest) return {what, static_cast<std::uint64_t>(never - next)};
  const bool soon = rules_.order == evict_order::not_soon && std::min(next, end_) - now <= rules_.gap;
  return {soon ? last_resort : what, came_in};
}

action victim_order::departure(const leaving_part& x, position now) const {
  if (next_use(x, now) == never && is_discarded(x) && x.is_alone) return discard{x.what, x.part};
  return evict{x.what, x.part};
}

bool victim_order::is_discarded(const leaving_part& x) const {
  return !rules_.discards.empty() && rules_.discards[x.what];
}

// Positions of the next iteration come behind those of this one.
position victim_order::next_use(const leaving_part& x, position now) const {
  const role use = g_.tensors[x.what].use;
  const auto at = std::ranges::lower_bound(x.uses, now);
  const bool is_first = at == x.uses.begin();
  if (at != x.uses.end() && (!is_first || persists(use))) return *at;
  // What a user reads when an iteration has ended is dead once the next one has begun.
  if (!survives(use) || x.uses.empty() || (is_first && !persists(use))) return never;
  return end_ + x.uses.front();
}

// --- what is resident ---

resident_parts::resident_parts(const graph& g, const memory_plan& draft, const placement& at,
                               const leaving_parts& parts, const room_rules& rules)
    : draft_(draft),
      placement_(at),
      parts_(parts),
      ledger_(g, draft.home, at.managed, at.addresses.managed_bytes),
      order_(g, rules, static_cast<position>(parts.order.size())),
      last_arrival_(ledger_.size(), 0),
      may_be_resident_(parts.parts.size(), true) {}

void resident_parts::apply(const action& a, position now) {
  if (const auto* f = std::get_if<prefetch>(&a); f != nullptr && is_managed(draft_.home[f->what])) {
    const range r = placement_.managed.range_of(f->what, f->part);
    note_arrival(f->what, std::span(&r, 1), true);
  } else if (std::holds_alternative<compute>(a)) {
    for (const managed_operand& o : parts_.of_position[static_cast<std::size_t>(now)])
      note_arrival(o.what, o.touched, false);
  }
  ledger_.apply(a);
}

void resident_parts::note_arrival(tensor_id t, std::span<const range> what, bool anew) {
  ++clock_;  // operands come one after the other
  const auto note = [&](tensor_id owner) {
    for (std::size_t x = parts_.first_of_tensor[owner]; x < parts_.first_of_tensor[owner + 1]; ++x)
      may_be_resident_[x] = true;
  };
  note(t);
  for (const range& r : what) {
    const auto [begin, end] = blocks_of(r);
    for (std::size_t b = begin; b < end; ++b) {
      if (!anew && ledger_.is_resident(b)) continue;
      last_arrival_[b] = clock_;
      const tensor_id owner = ledger_.owner(b);  // still another one, until a compute takes them over
      if (owner != t && owner != block_ledger::no_owner) note(owner);
    }
  }
}

void resident_parts::for_owned(const leaving_part& x, const auto& what) const {
  const auto [begin, end] = blocks_of(x.place);
  for (std::size_t b = begin; b < end; ++b) {
    if (ledger_.is_resident(b) && ledger_.owner(b) == x.what) what(b);
  }
}

bool resident_parts::is_here(const leaving_part& x) const {
  bool any = false;
  for_owned(x, [&](std::size_t) { any = true; });
  return any;
}

std::uint64_t resident_parts::count_with(const block_set& wanted) const {
  std::uint64_t count = ledger_.count();
  for (const std::size_t b : wanted.members()) count += ledger_.is_resident(b) ? 0 : 1;
  return count;
}

std::optional<std::vector<std::size_t>> resident_parts::victims(position now, const block_set& wanted,
                                                                const block_set& spared, std::uint64_t most,
                                                                std::uint64_t limit) {
  std::uint64_t count = count_with(wanted);
  std::vector<std::size_t> chosen;
  if (count <= most) return chosen;
  std::vector<victim> all = candidates(now, wanted, spared);
  std::ranges::sort(all, {}, [](const victim& v) { return std::tuple(v.how, v.block, v.part); });
  for (const victim& v : all) {
    if (count <= most) break;
    count -= v.gain;
    chosen.push_back(v.part);
  }
  if (count > limit) return std::nullopt;
  return chosen;
}

std::vector<resident_parts::victim> resident_parts::candidates(position now, const block_set& wanted,
                                                               const block_set& spared) {
  std::vector<victim> all;
  for (std::size_t i = 0; i < parts_.parts.size(); ++i) {
    if (!may_be_resident_[i]) continue;
    victim v{{}, ledger_.size(), i, 0};
    std::uint64_t came_in = std::numeric_limits<std::uint64_t>::max();
    bool any = false;
    for_owned(parts_.parts[i], [&](std::size_t b) {
      any = true;
      v.gain += wanted.has(b) ? 0 : 1;
      if (spared.has(b)) return;
      v.block = std::min(v.block, b);
      came_in = std::min(came_in, last_arrival_[b]);
    });
    may_be_resident_[i] = any;
    if (v.block == ledger_.size()) continue;
    v.how = order_.urgency_of(parts_.parts[i], now, came_in);
    all.push_back(v);
  }
  return all;
}

}  // namespace um
