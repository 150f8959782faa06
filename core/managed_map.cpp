#include "core/managed_map.hpp"

#include <algorithm>
#include <stdexcept>

namespace um {
namespace {

// Removes [begin, end) from the ranges.
std::vector<range> subtract_range(const std::vector<range>& from, byte_count begin, byte_count end) {
  std::vector<range> left;
  for (const range& r : from) {
    const byte_count range_end = r.offset + r.bytes;
    if (end <= r.offset || begin >= range_end) {
      left.push_back(r);
      continue;
    }
    if (begin > r.offset) left.push_back({r.offset, begin - r.offset});
    if (end < range_end) left.push_back({end, range_end - end});
  }
  return left;
}

}  // namespace

managed_map::managed_map(const graph& g, const memory_plan& plan, const lifetime_table& table,
                         const layout& at)
    : g_(g), table_(table), layout_(at), overlapping_(g.tensors.size()) {
  for (const residence home : plan.residences) is_twinned_.push_back(home == residence::twinned);
  std::vector<std::uint32_t> by_offset;
  for (std::uint32_t l = 0; l < table.lifetimes.size(); ++l) {
    if (table.lifetimes[l].is_managed) by_offset.push_back(l);
  }
  std::ranges::sort(by_offset, {}, [&](std::uint32_t l) { return at.offsets[l]; });
  for (std::size_t i = 0; i < by_offset.size(); ++i) {
    const std::uint32_t a = by_offset[i];
    const byte_count end = at.offsets[a] + table.lifetimes[a].bytes;
    for (std::size_t k = i + 1; k < by_offset.size() && at.offsets[by_offset[k]] < end; ++k) {
      overlapping_[table.lifetimes[a].tensor].push_back(by_offset[k]);
      overlapping_[table.lifetimes[by_offset[k]].tensor].push_back(a);
    }
  }
  for (std::vector<std::uint32_t>& of_one : overlapping_) std::ranges::sort(of_one);
}

range managed_map::range_of(tensor_id t, const box& part) const {
  if (table_.by_tensor[t].empty()) return {};
  const tensor& what = g_.tensors[t];
  if (part != box{part.batch, {}, {}, {}}) {
    throw std::invalid_argument("tensor " + what.name +
                                " is managed and can be moved by parts of its batch axis only");
  }
  const lifetime& l = lifetime_of(t);
  const range in_tensor = batch_range(what, part);
  const byte_count end_in_tensor = in_tensor.offset + in_tensor.bytes;
  const byte_count unit = l.bytes < managed_block ? 1 : managed_block;
  const bool is_last = end_in_tensor == bytes_of(what);
  if (is_twinned_[t] && (in_tensor.offset % unit != 0 || (!is_last && end_in_tensor % unit != 0))) {
    throw std::invalid_argument("tensor " + what.name +
                                " is twinned and moves by parts that are whole blocks of " +
                                to_text(managed_block) + " only; cut it otherwise, or move it whole");
  }
  const byte_count begin_in_tensor = round_down(in_tensor.offset, unit);
  return {offset_of(t) + begin_in_tensor,
          (is_last ? l.bytes : round_down(end_in_tensor, unit)) - begin_in_tensor};
}

// Whether `other_lifetime` has reused addresses of tensor t at action `now`. Plans repeat, so before the
// tensor's lifetime begins the state is that at the end of the last iteration.
bool managed_map::has_reused_addresses_of(std::uint32_t other_lifetime, tensor_id t,
                                          std::uint32_t now) const {
  const std::uint32_t born = lifetime_of(t).begin, taken = table_.lifetimes[other_lifetime].begin;
  return now >= born ? born < taken && taken <= now : taken > born || taken <= now;
}

range managed_map::discardable_range(tensor_id t, const box& part) const {
  range r = range_of(t, part);
  if (r.bytes == 0) return r;
  const byte_count first = offset_of(t) + batch_range(g_.tensors[t], part).offset;
  if (first > r.offset) {
    const byte_count shared = std::min(r.bytes, managed_block);
    r = {r.offset + shared, r.bytes - shared};
  }
  return r;
}

std::vector<range> managed_map::owned_discardable_ranges(tensor_id t, const box& part,
                                                         std::uint32_t now) const {
  return owned_ranges_in(t, discardable_range(t, part), now);
}

std::vector<range> managed_map::owned_ranges_in(tensor_id t, const range& whole, std::uint32_t now) const {
  if (whole.bytes == 0 || lifetime_of(t).bytes < managed_block) return {};
  std::vector<range> left{whole};
  for (const std::uint32_t k : overlapping_[t]) {
    if (!has_reused_addresses_of(k, t, now)) continue;
    const byte_count begin = layout_.offsets[k], end = begin + table_.lifetimes[k].bytes;
    left = subtract_range(left, round_down(begin, managed_block), round_up(end, managed_block));
  }
  return left;
}

void managed_map::throw_if_prefetch_is_early(tensor_id t, std::uint32_t now) const {
  if (table_.by_tensor[t].empty()) {
    throw std::invalid_argument("tensor " + g_.tensors[t].name + " is twinned, but nothing touches it");
  }
  const lifetime& mine = lifetime_of(t);
  if (now >= mine.begin) return;
  for (const std::uint32_t k : overlapping_[t]) {
    const lifetime& other = table_.lifetimes[k];
    if (other.begin < mine.begin && other.end > now) {
      throw std::invalid_argument("prefetch " + g_.tensors[t].name +
                                  ": its addresses still belong to tensor " + g_.tensors[other.tensor].name +
                                  "; prefetch it after that one's last use");
    }
  }
}

placement::placement(const problem& p, const memory_plan& plan, packer how)
    : table(lifetimes_of(p, plan)),
      addresses(make_layout(p.network, table, plan, how)),
      managed(p.network, plan, table, addresses) {}

placement::placement(const problem& p, const memory_plan& plan, const placement& known)
    : table(lifetimes_of(p, plan)),
      addresses(make_layout_like(known.addresses, p.network, table, plan)),
      managed(p.network, plan, table, addresses) {}

}  // namespace um
