#include "hints/parts.hpp"

#include <algorithm>

#include "core/memory_plan.hpp"

namespace um {
namespace {

// The parts that overlap a range of images if the batch has `part_count` equal parts.
std::pair<std::size_t, std::size_t> overlapping_parts(std::int64_t images, std::uint32_t part_count,
                                                      const interval& range) {
  std::uint32_t begin = 0, end = part_count;
  while (begin + 1 < part_count && part_of(images, begin, part_count).end <= range.begin) ++begin;
  while (end > begin + 1 && part_of(images, end - 1, part_count).begin >= range.end) --end;
  return {begin, end};
}

void add_parts(evictable_parts& parts, const graph& g, const placement& at, tensor_id t,
               std::uint32_t part_count) {
  const tensor& what = g.tensors[t];
  const bool alone = part_count == 1 || bytes_of(what) % (part_count * managed_block) == 0;
  for (std::uint32_t i = 0; i < part_count; ++i) {
    const box part = batch_part(what.shape.n, i, part_count);
    parts.parts.push_back({t, part, at.managed.range_of(t, part), alone, {}});
  }
}

void add_operands(evictable_parts& parts, const graph& g, const memory_plan& plan, const placement& at,
                  const compute& c) {
  const auto now = static_cast<position>(parts.operands.size());
  parts.order.push_back(c);
  std::vector<managed_operand>& operands = parts.operands.emplace_back();
  for (const access& a : accesses_of(g, c)) {
    if (!is_managed(plan.residences[a.tensor])) continue;
    const tensor& t = g.tensors[a.tensor];
    const std::size_t first = parts.first_part[a.tensor], count = parts.first_part[a.tensor + 1] - first;
    const auto [begin, end] = overlapping_parts(t.shape.n, static_cast<std::uint32_t>(count), a.where.batch);
    managed_operand o{a.tensor, first + begin, first + end, runs_of(t, a.where)};
    for (range& r : o.touched_ranges) r.offset += at.managed.offset_of(a.tensor);
    for (std::size_t x = o.part_begin; x < o.part_end; ++x) {
      std::vector<position>& uses = parts.parts[x].uses;
      if (uses.empty() || uses.back() != now) uses.push_back(now);
    }
    operands.push_back(std::move(o));
  }
}

}  // namespace

std::uint32_t eviction_part_count(const tensor& t, residence home, std::uint32_t slices,
                                  byte_count part_bytes) {
  const auto images = static_cast<byte_count>(t.shape.n);
  const byte_count wanted = (bytes_of(t) + part_bytes - 1) / part_bytes;
  for (byte_count of = std::min(std::max<byte_count>(wanted, slices), images); of > 1; --of) {
    const bool with_slices = of % slices == 0 || slices % of == 0;
    if (with_slices && images % of == 0 && bytes_of(t) / of % managed_block == 0)
      return static_cast<std::uint32_t>(of);
  }
  if (home == residence::twinned) return 1;
  const byte_count each = std::max<byte_count>((wanted + slices - 1) / slices, 1);
  return static_cast<std::uint32_t>(
      std::min(slices * each, std::max<byte_count>(images / slices, 1) * slices));
}

evictable_parts find_evictable_parts(const problem& p, const memory_plan& plan, const placement& at,
                                     byte_count part_bytes) {
  const graph& g = p.network;
  evictable_parts parts;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    parts.first_part.push_back(parts.parts.size());
    if (!is_managed(plan.residences[t])) continue;
    const std::uint32_t slices = at.table.strips[t].grid.batch_part_count();
    add_parts(parts, g, at, t, eviction_part_count(g.tensors[t], plan.residences[t], slices, part_bytes));
  }
  parts.first_part.push_back(parts.parts.size());
  for (const action& a : plan.actions) {
    if (const auto* c = std::get_if<compute>(&a)) add_operands(parts, g, plan, at, *c);
  }
  return parts;
}

}  // namespace um
