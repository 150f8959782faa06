#include "core/blocks.hpp"

#include <algorithm>
#include <numeric>

namespace um {
namespace {

// Groups of lifetimes. Each member has a fixed distance from the first of its group.
class rigid_groups {
 public:
  explicit rigid_groups(std::size_t count) : group_(count), offset_in_group_(count, 0), members_(count) {
    std::iota(group_.begin(), group_.end(), 0U);
    for (std::uint32_t i = 0; i < count; ++i) members_[i] = {i};
  }

  std::uint32_t group_of(std::uint32_t i) const { return group_[i]; }
  std::int64_t offset_in_group(std::uint32_t i) const { return offset_in_group_[i]; }
  const std::vector<std::uint32_t>& members_with(std::uint32_t i) const { return members_[group_[i]]; }

  // Merges two groups so that b lies `distance` bytes after a.
  void merge(std::uint32_t a, std::uint32_t b, std::int64_t distance) {
    std::uint32_t into = group_[a], from = group_[b];
    std::int64_t shift = offset_in_group_[a] + distance - offset_in_group_[b];
    if (members_[into].size() < members_[from].size()) {
      std::swap(into, from);
      shift = -shift;
    }
    for (const std::uint32_t m : members_[from]) {
      offset_in_group_[m] += shift;
      group_[m] = into;
    }
    members_[into].insert(members_[into].end(), members_[from].begin(), members_[from].end());
    members_[from].clear();
  }

 private:
  std::vector<std::uint32_t> group_;
  std::vector<std::int64_t> offset_in_group_;
  std::vector<std::vector<std::uint32_t>> members_;
};

class block_builder {
 public:
  block_builder(const graph& g, const memory_plan& plan, lifetime_table& table)
      : g_(g), plan_(plan), table_(table), groups_(table.lifetimes.size()) {}

  void form_blocks() {
    for (const action_use& a : table_.actions) {
      for (const operand_use& o : a.operands) {
        for (const strip_use& u : o.sources) join_segments(u);
        for (const strip_use& u : o.targets) join_segments(u);
      }
      join_segments(a.moved);
    }
    for (std::uint32_t i = 0; i < plan_.actions.size(); ++i) share_in_place(i);
    number_blocks();
  }

 private:
  const lifetime& lifetime_at(std::uint32_t l) const { return table_.lifetimes[l]; }

  void join_segments(const strip_use& u) {
    for (std::size_t i = 1; i < u.lifetimes.size(); ++i) {
      const std::uint32_t a = u.lifetimes[i - 1], b = u.lifetimes[i];
      if (groups_.group_of(a) == groups_.group_of(b)) continue;
      groups_.merge(a, b,
                    static_cast<std::int64_t>(lifetime_at(b).first_byte) -
                        static_cast<std::int64_t>(lifetime_at(a).first_byte));
    }
  }

  // Places an in-place output at the address of an input whose lifetime ends at this action.
  void share_in_place(std::uint32_t now) {
    const compute* c = std::get_if<compute>(&plan_.actions[now]);
    if (c == nullptr || c->cheap_recompute || !g_.ops[c->op].alias) return;
    const op& o = g_.ops[c->op];
    const std::size_t in = o.alias->input, out = o.in.size() + o.alias->output;
    const tensor_id from = o.in[o.alias->input], to = o.out[o.alias->output];
    const operand_use &input = table_.actions[now].operands[in], &output = table_.actions[now].operands[out];
    if (from == to || survives(g_.tensors[from].role) || input.is_gathered || output.is_gathered) return;
    const std::vector<std::uint32_t>&old = input.sources.front().lifetimes,
          &fresh = output.targets.front().lifetimes;
    if (old.empty() || fresh.empty() ||
        lifetime_at(old.front()).is_managed != lifetime_at(fresh.front()).is_managed)
      return;
    if (!std::ranges::all_of(old, [&](std::uint32_t l) { return lifetime_at(l).end == now + 1; })) return;
    if (!std::ranges::all_of(fresh, [&](std::uint32_t l) { return lifetime_at(l).begin == now; })) return;
    if (spanned_bytes(old) != spanned_bytes(fresh)) return;
    place_output_at_input(old, fresh, now);
  }

  byte_count spanned_bytes(const std::vector<std::uint32_t>& held) const {
    return lifetime_at(held.back()).first_byte + lifetime_at(held.back()).bytes -
           lifetime_at(held.front()).first_byte;
  }

  void place_output_at_input(const std::vector<std::uint32_t>& old, const std::vector<std::uint32_t>& fresh,
                             std::uint32_t now) {
    const std::uint32_t a = old.front(), b = fresh.front();
    if (groups_.group_of(a) == groups_.group_of(b)) return;
    const std::int64_t shift = groups_.offset_in_group(a) - groups_.offset_in_group(b);
    if (shift % static_cast<std::int64_t>(std::max(lifetime_at(a).alignment, lifetime_at(b).alignment)) != 0)
      return;
    for (const std::uint32_t l : old) table_.lifetimes[l].reused_from = now;
    for (const std::uint32_t x : groups_.members_with(a)) {
      for (const std::uint32_t y : groups_.members_with(b)) {
        if (!lifetimes_would_overlap(x, groups_.offset_in_group(x), y, groups_.offset_in_group(y) + shift))
          continue;
        for (const std::uint32_t l : old) table_.lifetimes[l].reused_from = lifetime_at(l).end;
        return;
      }
    }
    groups_.merge(a, b, 0);
  }

  bool lifetimes_would_overlap(std::uint32_t x, std::int64_t x_at, std::uint32_t y, std::int64_t y_at) const {
    return lifetime_at(x).begin < lifetime_at(y).reused_from &&
           lifetime_at(y).begin < lifetime_at(x).reused_from &&
           x_at < y_at + static_cast<std::int64_t>(lifetime_at(y).bytes) &&
           y_at < x_at + static_cast<std::int64_t>(lifetime_at(x).bytes);
  }

  void number_blocks() {
    for (std::uint32_t l = 0; l < table_.lifetimes.size(); ++l) {
      if (groups_.group_of(l) != l) continue;
      const auto& members = groups_.members_with(l);
      const std::uint32_t head =
          *std::ranges::min_element(members, {}, [&](std::uint32_t m) { return groups_.offset_in_group(m); });
      // Keeps each lifetime's alignment inside its strip.
      const std::int64_t first = groups_.offset_in_group(head) -
                                 static_cast<std::int64_t>(lifetime_at(head).first_byte % engine_alignment);
      for (const std::uint32_t m : members) {
        table_.lifetimes[m].block = table_.block_count;
        table_.lifetimes[m].offset = static_cast<byte_count>(groups_.offset_in_group(m) - first);
      }
      ++table_.block_count;
    }
  }

  const graph& g_;
  const memory_plan& plan_;
  lifetime_table& table_;
  rigid_groups groups_;
};

}  // namespace

void join_blocks(const graph& g, const memory_plan& plan, lifetime_table& table) {
  block_builder(g, plan, table).form_blocks();
}

std::vector<piece> pieces_of(const lifetime_table& table) {
  std::vector<byte_count> block_ends(table.block_count, 0);
  for (const lifetime& l : table.lifetimes)
    block_ends[l.block] = std::max(block_ends[l.block], l.offset + l.bytes);
  std::vector<piece> pieces;
  for (const lifetime& l : table.lifetimes) {
    const byte_count end = l.offset + l.bytes;
    const byte_count bytes = end == block_ends[l.block] ? round_up(end, arena_alignment) - l.offset : l.bytes;
    pieces.push_back({l.offset, bytes, l.begin, l.reused_from});
  }
  return pieces;
}

}  // namespace um
