#include "core/managed_map.hpp"

#include <stdexcept>
#include <string>

namespace um {
namespace {

// `from` without [begin, end).
std::vector<range> without(const std::vector<range>& from, byte_count begin, byte_count end) {
  std::vector<range> left;
  for (const range& r : from) {
    const byte_count last = r.offset + r.bytes;
    if (end <= r.offset || begin >= last) {
      left.push_back(r);
      continue;
    }
    if (begin > r.offset) left.push_back({r.offset, begin - r.offset});
    if (end < last) left.push_back({end, last - end});
  }
  return left;
}

}  // namespace

managed_map::managed_map(const graph& g, const memory_plan& plan, const std::vector<cell_grid>& cells,
                         const lifetime_table& table, const layout& at)
    : g_(g), cells_(cells), table_(table), at_(at), takers_(g.tensors.size()) {
  for (const residence home : plan.home) twinned_.push_back(home == residence::twinned);
  for (std::uint32_t a = 0; a < table.all.size(); ++a) {
    if (!table.all[a].managed) continue;
    for (std::uint32_t b = 0; b < table.all.size(); ++b) {
      if (a != b && meet(table, at, a, b)) takers_[table.all[a].what].push_back(b);
    }
  }
}

range managed_map::range_of(tensor_id t, const box& part) const {
  if (table_.of_tensor[t].empty()) return {};
  const tensor& what = g_.tensors[t];
  if (!is_whole(box{{}, part.channel, part.row, part.reduction})) {
    throw std::invalid_argument("tensor " + what.name +
                                " is managed and can be moved by parts of its batch axis only");
  }
  const lifetime& l = lifetime_of(t);
  const part_run run = parts_of(cells_[t], region_of(what.shape, part));
  const std::uint32_t last = cells_[t].batch_parts();
  const byte_count unit = l.bytes < managed_block ? 1 : managed_block;
  const bool on_blocks = first_byte_of(what, cells_[t], run.begin) % unit == 0 &&
                         (run.end == last || first_byte_of(what, cells_[t], run.end) % unit == 0);
  if (twinned_[t] && !on_blocks) {
    throw std::invalid_argument("tensor " + what.name +
                                " is twinned and moves by parts that are whole blocks of " +
                                to_text(managed_block) + " only; cut it otherwise, or move it whole");
  }
  const byte_count from = round_down(first_byte_of(what, cells_[t], run.begin), unit);
  const byte_count to = run.end == last ? l.bytes : round_down(first_byte_of(what, cells_[t], run.end), unit);
  return {offset_of(t) + from, to - from};
}

// Lists are cyclic: before its own lifetime begins, a tensor is what the last iteration left of it.
bool managed_map::took_over(std::uint32_t taker, tensor_id t, std::uint32_t now) const {
  const std::uint32_t born = lifetime_of(t).begin, taken = table_.all[taker].begin;
  return now >= born ? born < taken && taken <= now : taken > born || taken <= now;
}

std::vector<range> managed_map::owned(tensor_id t, const box& part, std::uint32_t now) const {
  const range whole = range_of(t, part);
  if (whole.bytes == 0 || lifetime_of(t).bytes < managed_block) return {};
  std::vector<range> left{whole};
  for (const std::uint32_t k : takers_[t]) {
    if (!took_over(k, t, now)) continue;
    const byte_count begin = at_.offset[k], end = begin + table_.all[k].bytes;
    left = without(left, round_down(begin, managed_block), round_up(end, managed_block));
  }
  return left;
}

}  // namespace um
