#include "core/places.hpp"

namespace um {

pitched_copy copy_of(const address& from_base, const tensor& from, const region& in_from,
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

places::places(const graph& g, const lifetime_table& table, const layout& at, const managed_map& managed,
               const home_addresses& home, const machine& on)
    : g_(g), table_(table), layout_(at), managed_(managed), home_(home), machine_(on) {}

// Address of the strip's first element, which may lie before the arena if only a later part is resident:
// modulo 2^64, so that it comes out right once the offset of that part is added.
address places::strip_base(tensor_id t, const strip_use& u) const {
  if (u.lifetimes.empty()) return {space::pinned, home_.pinned_offset[t]};
  const lifetime& l = table_.lifetimes[u.lifetimes.front()];
  return {l.managed ? space::managed : space::device, layout_.offset[u.lifetimes.front()] - l.first_byte};
}

address places::address_of(const access& a, const operand_use& u, byte_count workspace) const {
  if (u.in_scratch) return {space::device, workspace + u.scratch_offset};
  const strip_use& part = u.targets.empty() ? u.sources.front() : u.targets.front();
  address at = strip_base(a.what, part);
  const region strip = strip_region(a.what, part);
  at.offset += strided_runs_of(part_of(g_.tensors[a.what], strip), relative_to(a.where, strip)).offset;
  return at;
}

operand_copies places::copies_for(const operand& o, const operand_use& u) const {
  const tensor_id t = o.what.what;
  const tensor dense = part_of(g_.tensors[t], o.what.where);
  const auto copy = [&](const strip_use& strip, bool in) {
    const region within = strip_region(t, strip);
    const tensor part = part_of(g_.tensors[t], within);
    const region there = relative_to(strip.what.where, within);
    const region here = relative_to(strip.what.where, o.what.where);
    const address base = strip_base(t, strip);
    pitched_copy c =
        in ? copy_of(base, part, there, o.at, dense, here) : copy_of(o.at, dense, here, base, part, there);
    c.made_by = copier::kernel;
    return c;
  };
  const bool lies_there = !u.in_scratch && u.sources.size() == 1 &&
                          (u.targets.empty() || u.targets.front().what.strip == u.sources.front().what.strip);
  operand_copies all;
  if (!lies_there) {
    for (const strip_use& from : u.sources) all.before.push_back(copy(from, true));
  }
  if (u.in_scratch) {
    for (const strip_use& to : u.targets) all.after.push_back(copy(to, false));
  }
  return all;
}

pitched_copy places::copy_of_moved(tensor_id t, const strip_use& moved, bool in) const {
  const address home{space::pinned, home_.pinned_offset[t]}, base = strip_base(t, moved);
  const region strip = strip_region(t, moved), there = relative_to(moved.what.where, strip);
  const tensor& whole = g_.tensors[t];
  const tensor part = part_of(whole, strip);
  pitched_copy c = in ? copy_of(home, whole, moved.what.where, base, part, there)
                      : copy_of(base, part, there, home, whole, moved.what.where);
  if (c.height * c.depth > 1 && c.width < machine_.engine_row_bytes) c.made_by = copier::kernel;
  return c;
}
pitched_copy places::from_home(tensor_id t, const strip_use& moved) const {
  return copy_of_moved(t, moved, true);
}
pitched_copy places::to_home(tensor_id t, const strip_use& moved) const {
  return copy_of_moved(t, moved, false);
}

std::vector<movement> places::twin_moves(tensor_id t, const std::vector<std::uint32_t>& cells) const {
  std::vector<movement> all;
  for (const std::uint32_t cell : cells) {
    for (const range& r : runs_of(g_.tensors[t], region_of(table_.strips[t].cells, cell))) {
      const byte_count here = managed_.offset_of(t) + r.offset, home = home_.pinned_offset[t] + r.offset;
      const bool goes_on = !all.empty() && all.back().device.offset + all.back().device.bytes == here &&
                           all.back().pinned_offset + all.back().device.bytes == home;
      if (goes_on) {
        all.back().device.bytes += r.bytes;
      } else {
        all.push_back({{here, r.bytes}, home});
      }
    }
  }
  return all;
}

}  // namespace um
