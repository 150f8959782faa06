#include "core/address_resolver.hpp"

#include <algorithm>

namespace um {

home_addresses home_addresses_of(const graph& g, const memory_plan& plan, const lifetime_table& table,
                                 const layout& at) {
  home_addresses all;
  all.pinned_offset.assign(g.tensors.size(), 0);
  std::vector<bool> leaves(g.tensors.size(), false);
  for (const action& a : plan.actions) {
    if (const auto* e = std::get_if<evict>(&a)) leaves[e->tensor] = true;
  }
  const auto last = static_cast<std::uint32_t>(plan.actions.empty() ? 0 : plan.actions.size() - 1);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const residence home = plan.residences[t];
    const bool pinned = is_pinned(home), has_twin = leaves[t] || persists(g.tensors[t].role);
    if (pinned && (home != residence::twinned || has_twin)) {
      all.pinned_offset[t] = all.pinned_bytes;
      all.pinned_bytes += round_up(bytes_of(g.tensors[t]), arena_alignment);
    }
    const auto place = [&](std::uint32_t now) -> address {
      if (pinned) return {space::pinned, all.pinned_offset[t]};
      const auto l = std::ranges::find_if(table.by_tensor[t], [&](std::uint32_t i) {
        return table.lifetimes[i].begin <= now && now < table.lifetimes[i].end;
      });
      if (l == table.by_tensor[t].end()) return {};
      return {home == residence::managed ? space::managed : space::device, at.offsets[*l]};
    };
    all.at_start.push_back(place(0));
    all.at_end.push_back(place(last));
  }
  return all;
}

pitched_copy make_copy(const address& from_base, const tensor& from, const region& in_from,
                       const address& to_base, const tensor& to, const region& in_to) {
  const auto [source, target] = strided_runs_of(from, in_from, to, in_to);
  return {{from_base.where, from_base.offset + source.offset},
          {to_base.where, to_base.offset + target.offset},
          source.width,
          source.height,
          source.depth,
          source.pitch,
          target.pitch,
          source.slice,
          target.slice};
}

address_resolver::address_resolver(const graph& g, const lifetime_table& table, const layout& at,
                                   const managed_map& managed, const home_addresses& home, const machine& on)
    : g_(g), table_(table), layout_(at), managed_(managed), home_addresses_(home), machine_(on) {}

// Address of the strip's first element, modulo 2^64. It may lie before the arena if only a later segment is
// resident; adding that segment's offset gives the right address.
address address_resolver::strip_base(tensor_id t, const strip_use& u) const {
  if (u.lifetimes.empty()) return {space::pinned, home_addresses_.pinned_offset[t]};
  const lifetime& l = table_.lifetimes[u.lifetimes.front()];
  return {l.is_managed ? space::managed : space::device, layout_.offsets[u.lifetimes.front()] - l.first_byte};
}

address address_resolver::address_of(const access& a, const operand_use& u, byte_count workspace) const {
  if (u.is_gathered) return {space::device, workspace + u.gathered_offset};
  const strip_use& part = u.targets.empty() ? u.sources.front() : u.targets.front();
  address at = strip_base(a.tensor, part);
  const region strip = strip_region(a.tensor, part);
  at.offset += strided_runs_of(part_of(g_.tensors[a.tensor], strip), relative_to(a.where, strip)).offset;
  return at;
}

operand_copies address_resolver::copies_for(const operand& o, const operand_use& u) const {
  const tensor_id t = o.accessed.tensor;
  const tensor dense = part_of(g_.tensors[t], o.accessed.where);
  const auto copy = [&](const strip_use& strip, bool is_gather) {
    const region within = strip_region(t, strip);
    const tensor part = part_of(g_.tensors[t], within);
    const region there = relative_to(strip.part.where, within);
    const region here = relative_to(strip.part.where, o.accessed.where);
    const address base = strip_base(t, strip);
    pitched_copy c = is_gather ? make_copy(base, part, there, o.location, dense, here)
                               : make_copy(o.location, dense, here, base, part, there);
    c.made_by = copier::kernel;
    return c;
  };
  const bool lies_there = !u.is_gathered && u.sources.size() == 1 &&
                          (u.targets.empty() || u.targets.front().part.strip == u.sources.front().part.strip);
  operand_copies all;
  if (!lies_there) {
    for (const strip_use& from : u.sources) all.before.push_back(copy(from, true));
  }
  if (u.is_gathered) {
    for (const strip_use& to : u.targets) all.after.push_back(copy(to, false));
  }
  return all;
}

pitched_copy address_resolver::staged_copy(tensor_id t, const strip_use& moved, bool to_device) const {
  const address home{space::pinned, home_addresses_.pinned_offset[t]}, base = strip_base(t, moved);
  const region strip = strip_region(t, moved), there = relative_to(moved.part.where, strip);
  const tensor& whole = g_.tensors[t];
  const tensor part = part_of(whole, strip);
  pitched_copy c = to_device ? make_copy(home, whole, moved.part.where, base, part, there)
                             : make_copy(base, part, there, home, whole, moved.part.where);
  if (c.height * c.depth > 1 && c.width < machine_.engine_row_bytes) c.made_by = copier::kernel;
  return c;
}

std::vector<managed_target> address_resolver::twin_copy_ranges(
    tensor_id t, const std::vector<std::uint32_t>& cells) const {
  std::vector<managed_target> all;
  for (const std::uint32_t cell : cells) {
    for (const range& r : runs_of(g_.tensors[t], region_of(table_.strips[t].grid, cell))) {
      const byte_count here = managed_.offset_of(t) + r.offset,
                       home = home_addresses_.pinned_offset[t] + r.offset;
      const bool goes_on = !all.empty() &&
                           all.back().device_range.offset + all.back().device_range.bytes == here &&
                           all.back().pinned_offset + all.back().device_range.bytes == home;
      if (goes_on) {
        all.back().device_range.bytes += r.bytes;
      } else {
        all.push_back({{here, r.bytes}, home});
      }
    }
  }
  return all;
}

}  // namespace um
