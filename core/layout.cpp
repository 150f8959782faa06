#include "core/layout.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <tuple>

#include "core/blocks.hpp"

namespace um {
namespace {

byte_count& footprint_term(footprint_terms& terms, const graph& g, const lifetime& l) {
  if (l.tensor == no_lifetime) return terms.workspace;
  using term = byte_count footprint_terms::*;
  static constexpr std::array<term, enum_names<role>.size()> by_role{
      &footprint_terms::inputs,      &footprint_terms::inputs,
      &footprint_terms::parameters,  &footprint_terms::parameter_gradients,
      &footprint_terms::activations, &footprint_terms::activation_gradients,
      &footprint_terms::activations, &footprint_terms::parameters};
  return terms.*by_role.at(static_cast<std::size_t>(g.tensors[l.tensor].role));
}

// result[i]: number of computes among the actions before i.
std::vector<std::uint32_t> computes_before_action(const memory_plan& plan) {
  std::vector<std::uint32_t> computes{0};
  for (const action& a : plan.actions)
    computes.push_back(computes.back() + (std::holds_alternative<compute>(a) ? 1 : 0));
  return computes;
}

// Merges pieces at one address whose lifetimes follow one another, and adjacent pieces with equal lifetimes.
void merge_adjacent_pieces(std::vector<piece>& pieces) {
  const auto join = [&](auto&& order, auto&& into) {
    std::ranges::sort(pieces, {}, order);
    std::vector<piece> joined;
    for (const piece& p : pieces) {
      if (p.begin < p.end && (joined.empty() || !into(joined.back(), p))) joined.push_back(p);
    }
    pieces = std::move(joined);
  };
  join([](const piece& p) { return std::tuple(p.offset, p.bytes, p.begin); },
       [](piece& last, const piece& p) {
         const bool follows = last.offset == p.offset && last.bytes == p.bytes && last.end == p.begin;
         if (follows) last.end = p.end;
         return follows;
       });
  join([](const piece& p) { return std::tuple(p.begin, p.end, p.offset); },
       [](piece& last, const piece& p) {
         const bool beside =
             last.begin == p.begin && last.end == p.end && last.offset + last.bytes == p.offset;
         if (beside) last.bytes += p.bytes;
         return beside;
       });
}

// The blocks of one arena. Lifetimes are measured in computes or in actions.
std::vector<block> blocks_of_arena(bool managed, bool by_computes, const lifetime_table& table,
                                   const std::vector<piece>& pieces,
                                   const std::vector<std::uint32_t>& computes) {
  std::vector<block> blocks(table.block_count);
  for (std::uint32_t l = 0; l < table.lifetimes.size(); ++l) {
    if (table.lifetimes[l].is_managed != managed) continue;
    piece p = pieces[l];
    if (by_computes) {
      p.begin = computes[p.begin];
      p.end = computes[p.end];
    }
    block& b = blocks[table.lifetimes[l].block];
    b.pieces.push_back(p);
    b.alignment = std::max(b.alignment, table.lifetimes[l].alignment);
  }
  for (block& b : blocks) merge_adjacent_pieces(b.pieces);
  return blocks;
}

// Packs one arena and returns its size.
byte_count pack_arena(bool managed, bool by_computes, const lifetime_table& table,
                      const std::vector<piece>& pieces, const std::vector<std::uint32_t>& computes,
                      packer how, std::vector<byte_count>& offset) {
  const packing placed = how.pack(blocks_of_arena(managed, by_computes, table, pieces, computes));
  for (std::uint32_t l = 0; l < table.lifetimes.size(); ++l) {
    if (table.lifetimes[l].is_managed == managed)
      offset[l] = placed.offsets[table.lifetimes[l].block] + table.lifetimes[l].offset;
  }
  return round_up(placed.bytes, managed ? managed_block : arena_alignment);
}

// Bytes occupied at each action by the lifetimes that `counts` selects.
std::vector<byte_count> occupied_bytes(const lifetime_table& table, const std::vector<piece>& pieces,
                                       std::size_t actions, const auto& counts) {
  std::vector<byte_count> change(actions + 1, 0);  // per action: change of the occupied bytes, modulo 2^64
  for (std::uint32_t l = 0; l < pieces.size(); ++l) {
    if (!counts(table.lifetimes[l]) || pieces[l].begin >= pieces[l].end) continue;
    change[std::min<std::size_t>(pieces[l].begin, actions)] += pieces[l].bytes;
    change[std::min<std::size_t>(pieces[l].end, actions)] -= pieces[l].bytes;
  }
  std::vector<byte_count> held(actions);
  byte_count now = 0;
  for (std::size_t i = 0; i < actions; ++i) held[i] = now += change[i];
  return held;
}

// Blocks within actions [begin, end), each from its lowest piece on.
std::vector<block> blocks_within(std::span<const block> blocks, std::uint32_t begin, std::uint32_t end) {
  std::vector<block> all;
  for (const block& b : blocks) {
    block x{{}, b.alignment};
    byte_count first = std::numeric_limits<byte_count>::max();
    for (piece p : b.pieces) {
      p.begin = std::max(p.begin, begin);
      p.end = std::min(p.end, end);
      if (p.begin >= p.end) continue;
      first = std::min(first, p.offset);
      x.pieces.push_back(p);
    }
    for (piece& p : x.pieces) p.offset -= first;
    if (!x.pieces.empty()) all.push_back(std::move(x));
  }
  return all;
}

// If a range takes more than the budget: appends those of its halves that do; if neither does, its middle
// half; if that does not either, the range itself.
void append_crowded_ranges(std::span<const block> blocks, std::uint32_t begin, std::uint32_t end,
                           byte_count budget, std::vector<crowded_range>& found) {
  constexpr std::uint32_t min_actions = 16;
  const std::vector<block> here = blocks_within(blocks, begin, end);
  const packing packed = pack_searched(here);
  if (packed.bytes <= budget) return;
  const std::size_t before = found.size();
  const std::uint32_t quarter = (end - begin) / 4;
  if (end - begin > min_actions) {
    append_crowded_ranges(here, begin, begin + 2 * quarter, budget, found);
    append_crowded_ranges(here, begin + 2 * quarter, end, budget, found);
    if (found.size() == before) append_crowded_ranges(here, begin + quarter, end - quarter, budget, found);
  }
  if (found.size() == before) found.push_back({begin, end, packed.peak_live_bytes, packed.bytes});
}

constexpr auto in_both_arenas = [](const lifetime&) { return true; };

// Sets the bytes in use in the device arena at each action, and the footprint terms at the peak of both
// arenas.
void set_live_bytes(layout& at, const graph& g, const lifetime_table& table, const std::vector<piece>& pieces,
                    std::size_t actions) {
  at.live_device_bytes =
      occupied_bytes(table, pieces, actions, [](const lifetime& l) { return !l.is_managed; });
  const std::vector<byte_count> live = occupied_bytes(table, pieces, actions, in_both_arenas);
  const auto peak = static_cast<std::uint32_t>(std::max_element(live.begin(), live.end()) - live.begin());
  for (std::uint32_t l = 0; l < pieces.size(); ++l) {
    if (pieces[l].begin <= peak && peak < pieces[l].end)
      footprint_term(at.terms, g, table.lifetimes[l]) += pieces[l].bytes;
  }
  at.terms.total = at.device_bytes + at.managed_bytes;
  at.terms.fragmentation = at.terms.total - (live.empty() ? 0 : live[peak]);
}

}  // namespace

layout make_layout(const graph& g, const lifetime_table& table, const memory_plan& plan, packer how) {
  const std::vector<std::uint32_t> computes = computes_before_action(plan);
  const std::vector<piece> pieces = pieces_of(table);
  layout at;
  at.offsets.assign(table.lifetimes.size(), 0);
  const bool stages = std::ranges::find(plan.residences, residence::staged) != plan.residences.end();
  at.device_bytes = pack_arena(false, !stages, table, pieces, computes, how, at.offsets);
  at.managed_bytes = pack_arena(true, true, table, pieces, computes, how, at.offsets);
  set_live_bytes(at, g, table, pieces, plan.actions.size());
  return at;
}

layout make_layout_like(const layout& known, const graph& g, const lifetime_table& table,
                        const memory_plan& plan) {
  layout at;
  at.offsets = known.offsets;
  at.device_bytes = known.device_bytes;
  at.managed_bytes = known.managed_bytes;
  set_live_bytes(at, g, table, pieces_of(table), plan.actions.size());
  return at;
}

byte_count peak_bytes(const lifetime_table& table, const std::function<bool(const lifetime&)>& is_counted) {
  const std::vector<byte_count> live =
      occupied_bytes(table, pieces_of(table), table.actions.size(), is_counted);
  return live.empty() ? 0 : std::ranges::max(live);
}

std::vector<byte_count> live_bytes(const problem& p, const memory_plan& plan) {
  const lifetime_table table = lifetimes_of(p, plan);
  return occupied_bytes(table, pieces_of(table), plan.actions.size(), in_both_arenas);
}

std::vector<crowded_range> find_crowded_ranges(const problem& p, const memory_plan& plan, byte_count budget) {
  const lifetime_table table = lifetimes_of(p, plan);
  const std::vector<block> blocks =
      blocks_of_arena(false, false, table, pieces_of(table), computes_before_action(plan));
  std::vector<crowded_range> found;
  append_crowded_ranges(blocks, 0, static_cast<std::uint32_t>(plan.actions.size()), budget, found);
  return found;
}

footprint_terms footprint_of(const graph& g, const profile& costs, packer how) {
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), residence::device);
  for (op_id o = 0; o < g.ops.size(); ++o) plan.actions.emplace_back(compute{o, {}});
  const machine any;
  const lifetime_table table =
      lifetimes_of({g, costs, any, std::numeric_limits<byte_count>::max(), evictor::none, {}}, plan);
  return make_layout(g, table, plan, how).terms;
}

}  // namespace um
