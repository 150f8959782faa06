#include "core/pack_place.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace um::placing {
namespace {

// Chooses a gap by the rule of a task. Occupied intervals are added in order of their addresses.
class gap_finder {
 public:
  gap_finder(const placement_request& t, byte_count alignment)
      : how_(t.rule), alignment_(alignment), cursor_(to_signed(t.floor)) {}

  // False once no more can change the answer.
  bool add(offset_interval x) {
    if (x.above >= cursor_ && x.above - cursor_ < best_gap_) {
      const std::int64_t at = aligned();
      if (at <= x.above) {
        best_ = at;
        best_gap_ = x.above - cursor_;
        if (how_ == gap_rule::lowest_gap) return false;
      }
    }
    cursor_ = std::max(cursor_, x.below);
    return true;
  }

  std::int64_t address() const { return best_gap_ == none ? aligned() : best_; }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::int64_t aligned() const { return to_signed(round_up(static_cast<byte_count>(cursor_), alignment_)); }

  gap_rule how_;
  byte_count alignment_;
  std::int64_t cursor_, best_ = 0, best_gap_ = none;
};

}  // namespace

std::optional<attempt> block_placer::place(std::vector<std::size_t> order, byte_count most) {
  return place_rest(0, empty_attempt(std::move(order)), most);
}

std::optional<attempt> block_placer::place(std::vector<std::size_t> order, byte_count most,
                                           const attempt& before, std::size_t kept) {
  attempt a = empty_attempt(std::move(order));
  is_kept_.assign(task_.blocks.size(), 0);
  for (std::size_t k = 0; k < kept; ++k) is_kept_[a.order[k]] = 1;
  for (const placed_block& s : before.placed) {
    if (is_kept_[s.index] == 0) continue;
    a.insert(a.placed.size(), s, task_.blocks[s.index]);
    add_extent(s, a);
  }
  return place_rest(kept, std::move(a), most);
}

std::optional<attempt> block_placer::place_rest(std::size_t kept, attempt&& a, byte_count most) {
  for (std::size_t k = kept; k < a.order.size(); ++k) {
    const std::size_t i = a.order[k];
    const shape& b = task_.blocks[i];
    const std::int64_t at = address_for(i, a);
    const placed_block s{at, at + to_signed(b.extent), static_cast<std::uint32_t>(i)};
    add_extent(s, a);
    if (a.bytes_above_goal > most) return std::nullopt;
    const auto after = std::ranges::upper_bound(a.placed, at, {}, &placed_block::begin);
    a.insert(static_cast<std::size_t>(after - a.placed.begin()), s, b);
  }
  return std::move(a);
}

void block_placer::add_extent(const placed_block& s, attempt& a) const {
  const auto top = static_cast<byte_count>(s.end);
  a.bytes = std::max(a.bytes, top);
  if (top > task_.goal) a.bytes_above_goal += std::min(top - task_.goal, task_.blocks[s.index].extent);
}

attempt block_placer::empty_attempt(std::vector<std::size_t> order) const {
  attempt a{std::move(order), {}, {}, {}, task_.floor, 0};
  a.placed.reserve(task_.blocks.size());
  a.begins.reserve(task_.blocks.size());
  a.ends.reserve(task_.blocks.size());
  return a;
}

std::span<const std::uint32_t> block_placer::overlapping_in_time(const shape& b, const attempt& a) {
  constexpr std::size_t at_once = sizeof(std::uint64_t);
  const std::size_t known = a.placed.size();
  const std::uint32_t begin = b.begin, end = b.end;
  const std::uint32_t *const begins = a.begins.data(), *const ends = a.ends.data();
  is_overlapping_.assign(round_up(known, at_once), 0);
  unsigned char* const __restrict meets = is_overlapping_.data();
  for (std::size_t k = 0; k < known; ++k) {
    meets[k] = static_cast<unsigned char>((ends[k] > begin ? 1U : 0U) & (begins[k] < end ? 1U : 0U));
  }
  std::size_t count = 0;
  for (std::size_t first = 0; first < known; first += at_once) {
    std::uint64_t some = 0;
    std::memcpy(&some, &is_overlapping_[first], at_once);
    if (some == 0) continue;
    for (std::size_t k = first; k < std::min(first + at_once, known); ++k) {
      overlapping_[count] = static_cast<std::uint32_t>(k);
      count += is_overlapping_[k];
    }
  }
  return std::span(overlapping_).first(count);
}

std::int64_t block_placer::address_for(std::size_t i, const attempt& a) {
  const std::vector<placed_block>& placed = a.placed;
  const shape& b = task_.blocks[i];
  gap_finder found(task_, b.alignment);
  if (task_.has_only_single_blocks) {
    for (const std::uint32_t k : overlapping_in_time(b, a)) {
      if (!found.add({placed[k].begin - to_signed(b.extent), placed[k].end})) break;
    }
  } else {
    find_forbidden_addresses(i, a);
    for (const offset_interval& x : forbidden_) {
      if (!found.add(x)) break;
    }
  }
  return found.address();
}

void block_placer::find_forbidden_addresses(std::size_t i, const attempt& a) {
  const shape& b = task_.blocks[i];
  forbidden_.clear();
  bool in_order = true;
  for (const std::uint32_t k : overlapping_in_time(b, a)) {
    const placed_block& s = a.placed[k];
    if (overlap_throughout(b, task_.blocks[s.index])) {
      forbidden_.push_back({s.begin - to_signed(b.extent), s.end});
      continue;
    }
    in_order = false;
    if (b.is_single) {
      for (const offset_interval& x : conflicts_.forbidden_offsets(s.index, static_cast<std::uint32_t>(i)))
        forbidden_.push_back({s.begin - x.below, s.begin - x.above});
    } else {
      for (const offset_interval& x : conflicts_.forbidden_offsets(i, s.index))
        forbidden_.push_back({s.begin + x.above, s.begin + x.below});
    }
  }
  if (!in_order) std::ranges::sort(forbidden_, {}, &offset_interval::above);
}

}  // namespace um::placing
