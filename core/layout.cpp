#include "core/layout.hpp"

#include <algorithm>

namespace um {
namespace {

std::uint32_t root_of(const lifetime_table& table, std::uint32_t l) {
  while (table.all[l].shares != no_lifetime) l = table.all[l].shares;
  return l;
}

byte_count& term_of(footprint_terms& terms, const graph& g, const lifetime& l) {
  if (l.what == no_lifetime) return terms.workspace;
  switch (g.tensors[l.what].use) {
    case role::input:
    case role::label:
      return terms.inputs;
    case role::parameter:
      return terms.parameters;
    case role::parameter_gradient:
      return terms.parameter_gradients;
    case role::activation_gradient:
      return terms.activation_gradients;
    case role::activation:
    case role::output:
      return terms.activations;
  }
  return terms.activations;
}

// computes[i]: how many of the actions before i are computes.
std::vector<std::uint32_t> compute_clock(const memory_plan& plan) {
  std::vector<std::uint32_t> computes{0};
  for (const action& a : plan.actions)
    computes.push_back(computes.back() + (std::holds_alternative<compute>(a) ? 1 : 0));
  return computes;
}

// The roots of lifetimes that share an address, from the first's begin to the last's end; the others of
// such a chain stay empty.
std::vector<piece> pieces_of(const lifetime_table& table) {
  std::vector<piece> pieces(table.all.size());
  for (std::uint32_t l = 0; l < table.all.size(); ++l) {
    const lifetime& held = table.all[l];
    const std::uint32_t r = root_of(table, l);
    if (l == r) {
      pieces[l] = {0, held.bytes, held.begin, std::max(held.end, pieces[l].end)};
    } else {
      pieces[r].end = std::max(pieces[r].end, held.end);
    }
  }
  return pieces;
}

// Packs one of the arenas; how large it is.
byte_count pack_arena(bool managed, const std::vector<piece>& pieces, const lifetime_table& table,
                      const std::vector<std::uint32_t>& computes, packer how,
                      std::vector<byte_count>& offset) {
  std::vector<block> chosen;
  std::vector<std::uint32_t> which;
  for (std::uint32_t l = 0; l < pieces.size(); ++l) {
    if (table.all[l].shares != no_lifetime || table.all[l].managed != managed) continue;
    piece p = pieces[l];
    if (managed) {
      p.begin = computes[p.begin];
      p.end = computes[p.end];
    }
    chosen.push_back({{p}, table.all[l].alignment});
    which.push_back(l);
  }
  const packing placed = how.place(chosen);
  for (std::size_t i = 0; i < which.size(); ++i) offset[which[i]] = placed.offset[i];
  return round_up(placed.bytes, managed ? managed_block : arena_alignment);
}

// Bytes held at each action.
template <class Counts>
std::vector<byte_count> held_bytes(const std::vector<piece>& pieces, const lifetime_table& table,
                                   std::size_t actions, const Counts& counts) {
  std::vector<byte_count> held(actions, 0);
  for (std::uint32_t l = 0; l < pieces.size(); ++l) {
    if (table.all[l].shares != no_lifetime || !counts(table.all[l])) continue;
    for (std::uint32_t i = pieces[l].begin; i < std::min<std::size_t>(pieces[l].end, actions); ++i) {
      held[i] += pieces[l].bytes;
    }
  }
  return held;
}

constexpr auto in_both_arenas = [](const lifetime&) { return true; };

// Bytes held at each action in the device arena; terms at the peak of both arenas.
void account(layout& at, const graph& g, const std::vector<piece>& pieces, const lifetime_table& table,
             std::size_t actions) {
  at.live_device = held_bytes(pieces, table, actions, [](const lifetime& l) { return !l.managed; });
  const std::vector<byte_count> live = held_bytes(pieces, table, actions, in_both_arenas);
  const auto peak = static_cast<std::uint32_t>(std::max_element(live.begin(), live.end()) - live.begin());
  for (std::uint32_t l = 0; l < pieces.size(); ++l) {
    if (table.all[l].shares == no_lifetime && pieces[l].begin <= peak && peak < pieces[l].end) {
      term_of(at.terms, g, table.all[l]) += pieces[l].bytes;
    }
  }
  at.terms.total = at.device_bytes + at.managed_bytes;
  at.terms.fragmentation = at.terms.total - (live.empty() ? 0 : live[peak]);
}

}  // namespace

layout lay_out(const graph& g, const lifetime_table& table, const memory_plan& plan, packer how) {
  const std::vector<std::uint32_t> computes = compute_clock(plan);
  const std::vector<piece> pieces = pieces_of(table);
  layout at;
  at.offset.assign(table.all.size(), 0);
  at.device_bytes = pack_arena(false, pieces, table, computes, how, at.offset);
  at.managed_bytes = pack_arena(true, pieces, table, computes, how, at.offset);
  for (std::uint32_t l = 0; l < pieces.size(); ++l) at.offset[l] = at.offset[root_of(table, l)];
  account(at, g, pieces, table, plan.actions.size());
  return at;
}

std::vector<byte_count> live_bytes(const problem& p, const memory_plan& plan) {
  const lifetime_table table = lifetimes_of(p.network, p.costs, plan, cells_of(p.network, plan));
  return held_bytes(pieces_of(table), table, plan.actions.size(), in_both_arenas);
}

bool meet(const lifetime_table& table, const layout& at, std::uint32_t a, std::uint32_t b) {
  return table.all[a].managed == table.all[b].managed && at.offset[a] < at.offset[b] + table.all[b].bytes &&
         at.offset[b] < at.offset[a] + table.all[a].bytes;
}

std::vector<range> managed_layout(const problem& p, const memory_plan& plan, packer how) {
  const std::vector<cell_grid> cells = cells_of(p.network, plan);
  const lifetime_table table = lifetimes_of(p.network, p.costs, plan, cells);
  const layout at = lay_out(p.network, table, plan, how);
  std::vector<range> result(p.network.tensors.size());
  for (std::uint32_t l = 0; l < table.all.size(); ++l) {
    if (table.all[l].managed) result[table.all[l].what] = {at.offset[l], table.all[l].bytes};
  }
  return result;
}

footprint_terms footprint_of(const graph& g, const profile& costs, packer how) {
  memory_plan plan;
  plan.home.assign(g.tensors.size(), residence::device);
  for (op_id o = 0; o < g.ops.size(); ++o) plan.actions.emplace_back(compute{o, {}});
  const lifetime_table table = lifetimes_of(g, costs, plan, cells_of(g, plan));
  return lay_out(g, table, plan, how).terms;
}

}  // namespace um
