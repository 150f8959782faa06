#include "core/pack_shapes.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace um::placing {
namespace {

bool is_empty(const piece& p) {
  return p.bytes == 0 || p.begin >= p.end;
}

// Appends the intervals of b's address, relative to that of `other`, in which the two conflict, in ascending
// order.
void append_forbidden_offsets(const block_shape& b, const block_shape& other,
                              std::vector<offset_interval>& all) {
  const auto start = static_cast<std::ptrdiff_t>(all.size());
  for (const piece& p : b.pieces) {
    for (const piece& q : other.pieces) {
      if (p.begin >= q.end || q.begin >= p.end) continue;
      all.push_back({to_signed(q.offset) - to_signed(p.offset + p.bytes),
                     to_signed(q.offset + q.bytes) - to_signed(p.offset)});
    }
  }
  if (all.begin() + start == all.end()) return;
  std::sort(all.begin() + start, all.end(),
            [](const offset_interval& x, const offset_interval& y) { return x.above < y.above; });
  auto last = all.begin() + start;
  for (auto next = last + 1; next != all.end(); ++next) {
    if (next->above < last->below) {
      last->below = std::max(last->below, next->below);
    } else {
      *++last = *next;
    }
  }
  all.erase(last + 1, all.end());
}

}  // namespace

block_shape shape_of(const block& b) {
  block_shape s;
  s.alignment = b.alignment;
  s.is_solid = true;
  s.first_end = std::numeric_limits<std::uint32_t>::max();
  s.begin = s.first_end;
  std::ranges::remove_copy_if(b.pieces, std::back_inserter(s.pieces), is_empty);
  std::ranges::stable_sort(s.pieces, {}, &piece::offset);
  for (const piece& p : s.pieces) {
    s.is_solid = s.is_solid && p.offset <= s.extent;
    s.extent = std::max(s.extent, p.offset + p.bytes);
    s.begin = std::min(s.begin, p.begin);
    s.end = std::max(s.end, p.end);
    s.last_begin = std::max(s.last_begin, p.begin);
    s.first_end = std::min(s.first_end, p.end);
  }
  s.is_single = s.pieces.size() == 1 && s.pieces[0].offset == 0;
  return s;
}

forbidden_offset_table::forbidden_offset_table(std::span<const block_shape> blocks)
    : first_group_(blocks.size()) {
  const auto interval_count = [&] { return static_cast<std::uint32_t>(intervals_.size()); };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const block_shape& b = blocks[i];
    first_group_[i] = first_pair_.size();
    if (b.is_single) continue;
    for (std::uint32_t other = 0; other < blocks.size(); ++other) {
      if (other % group_size == 0) first_pair_.push_back(static_cast<std::uint32_t>(pairs_.size()));
      const block_shape& o = blocks[other];
      if (&o == &b || o.begin >= b.end || b.begin >= o.end || overlap_throughout(b, o)) continue;
      pairs_.push_back({other, interval_count()});
      append_forbidden_offsets(b, o, intervals_);
    }
  }
  pairs_.push_back({0, interval_count()});
}

std::span<const offset_interval> forbidden_offset_table::forbidden_offsets(std::size_t i,
                                                                           std::uint32_t other) const {
  const conflicting_pair* found = &pairs_[first_pair_[first_group_[i] + other / group_size]];
  while (found->other != other) ++found;
  return std::span(intervals_)
      .subspan(found->first_interval, found[1].first_interval - found->first_interval);
}

byte_count peak_live(std::span<const block_shape> blocks) {
  struct change {
    std::uint32_t at;
    bool opens;
    byte_count bytes;
  };
  std::vector<change> changes;
  for (const block_shape& b : blocks) {
    for (const piece& p : b.pieces) {
      changes.push_back({p.begin, true, p.bytes});
      changes.push_back({p.end, false, p.bytes});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const change& a, const change& z) { return a.at != z.at ? a.at < z.at : a.opens < z.opens; });
  byte_count live = 0, peak = 0;
  for (const change& c : changes) {
    live = c.opens ? live + c.bytes : live - c.bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace um::placing
