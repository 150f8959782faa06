#include "core/pack_place.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace um::placing {
namespace {

// Which gap to take, by the rule of a task, while what is taken is told in order.
class gap_finder {
 public:
  gap_finder(const task& t, byte_count alignment)
      : how_(t.how), alignment_(alignment), cursor_(signed_of(t.floor)) {}

  // False once no more can change the answer.
  bool add(taken x) {
    if (x.above >= cursor_ && x.above - cursor_ < best_gap_) {
      const std::int64_t at = aligned();
      if (at <= x.above) {
        best_ = at;
        best_gap_ = x.above - cursor_;
        if (how_ == rule::lowest_gap) return false;
      }
    }
    cursor_ = std::max(cursor_, x.below);
    return true;
  }

  std::int64_t address() const { return best_gap_ == none ? aligned() : best_; }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::int64_t aligned() const { return signed_of(round_up(static_cast<byte_count>(cursor_), alignment_)); }

  rule how_;
  byte_count alignment_;
  std::int64_t cursor_, best_ = 0, best_gap_ = none;
};

}  // namespace

std::optional<attempt> placer::place(std::vector<std::size_t> order, byte_count most) {
  return place_after(0, empty(std::move(order)), most);
}

std::optional<attempt> placer::place(std::vector<std::size_t> order, byte_count most, const attempt& before,
                                     std::size_t kept) {
  attempt a = empty(std::move(order));
  is_kept_.assign(t_.blocks.size(), 0);
  for (std::size_t k = 0; k < kept; ++k) is_kept_[a.order[k]] = 1;
  for (const spot& s : before.placed) {
    if (is_kept_[s.which] == 0) continue;
    a.insert(a.placed.size(), s, t_.blocks[s.which]);
    count(s, a);
  }
  return place_after(kept, std::move(a), most);
}

std::optional<attempt> placer::place_after(std::size_t kept, attempt&& a, byte_count most) {
  for (std::size_t k = kept; k < a.order.size(); ++k) {
    const std::size_t i = a.order[k];
    const shape& b = t_.blocks[i];
    const std::int64_t at = address_for(i, a);
    const spot s{at, at + signed_of(b.extent), static_cast<std::uint32_t>(i)};
    count(s, a);
    if (a.above_goal > most) return std::nullopt;
    const auto after = std::ranges::upper_bound(a.placed, at, {}, &spot::at);
    a.insert(static_cast<std::size_t>(after - a.placed.begin()), s, b);
  }
  return std::move(a);
}

void placer::count(const spot& s, attempt& a) const {
  const auto top = static_cast<byte_count>(s.top);
  a.bytes = std::max(a.bytes, top);
  if (top > t_.goal) a.above_goal += std::min(top - t_.goal, t_.blocks[s.which].extent);
}

attempt placer::empty(std::vector<std::size_t> order) const {
  attempt a{std::move(order), {}, {}, {}, t_.floor, 0};
  a.placed.reserve(t_.blocks.size());
  a.begins.reserve(t_.blocks.size());
  a.ends.reserve(t_.blocks.size());
  return a;
}

std::span<const std::uint32_t> placer::meeting(const shape& b, const attempt& a) {
  constexpr std::size_t at_once = sizeof(std::uint64_t);
  const std::size_t known = a.placed.size();
  const std::uint32_t begin = b.begin, end = b.end;
  const std::uint32_t *const begins = a.begins.data(), *const ends = a.ends.data();
  meets_.assign(round_up(known, at_once), 0);
  unsigned char* const __restrict meets = meets_.data();
  for (std::size_t k = 0; k < known; ++k) {
    meets[k] = static_cast<unsigned char>((ends[k] > begin ? 1U : 0U) & (begins[k] < end ? 1U : 0U));
  }
  std::size_t count = 0;
  for (std::size_t first = 0; first < known; first += at_once) {
    std::uint64_t some = 0;
    std::memcpy(&some, &meets_[first], at_once);
    if (some == 0) continue;
    for (std::size_t k = first; k < std::min(first + at_once, known); ++k) {
      meeting_[count] = static_cast<std::uint32_t>(k);
      count += meets_[k];
    }
  }
  return std::span(meeting_).first(count);
}

std::int64_t placer::address_for(std::size_t i, const attempt& a) {
  const std::vector<spot>& placed = a.placed;
  const shape& b = t_.blocks[i];
  gap_finder found(t_, b.alignment);
  if (t_.all_single) {
    for (const std::uint32_t k : meeting(b, a)) {
      if (!found.add({placed[k].at - signed_of(b.extent), placed[k].top})) break;
    }
  } else {
    find_taken(i, a);
    for (const taken& x : taken_) {
      if (!found.add(x)) break;
    }
  }
  return found.address();
}

void placer::find_taken(std::size_t i, const attempt& a) {
  const shape& b = t_.blocks[i];
  taken_.clear();
  bool in_order = true;
  for (const std::uint32_t k : meeting(b, a)) {
    const spot& s = a.placed[k];
    if (meet_whole(b, t_.blocks[s.which])) {
      taken_.push_back({s.at - signed_of(b.extent), s.top});
      continue;
    }
    in_order = false;
    if (b.is_single) {
      for (const taken& x : between_.of(s.which, static_cast<std::uint32_t>(i)))
        taken_.push_back({s.at - x.below, s.at - x.above});
    } else {
      for (const taken& x : between_.of(i, s.which)) taken_.push_back({s.at + x.above, s.at + x.below});
    }
  }
  if (!in_order) std::ranges::sort(taken_, {}, &taken::above);
}

}  // namespace um::placing
