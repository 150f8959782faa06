#include "core/pack_place.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace um::placing {
namespace {

// Chooses a gap by the request's rule. Occupied intervals must be added in ascending order of their
// addresses.
class gap_finder {
 public:
  gap_finder(const placement_request& t, byte_count alignment)
      : how_(t.rule), alignment_(alignment), cursor_(to_signed(t.floor)) {}

  // Returns false once no further interval can change the result.
  bool add(offset_interval x) {
    if (x.above >= cursor_ && x.above - cursor_ < best_gap_) {
      const std::int64_t at = aligned();
      if (at <= x.above) {
        best_ = at;
        best_gap_ = x.above - cursor_;
        if (how_ == gap_rule::lowest_gap || best_gap_ == 0) return false;
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

block_placer::block_placer(const placement_request& t)
    : request_(t),
      forbidden_offsets_(t.blocks),
      lifetimes_(t.blocks.size()),
      full_steps_(t.blocks.size()),
      extents_(t.blocks.size()),
      is_kept_(t.blocks.size()) {
  std::uint32_t end = 1;
  for (const block_shape& b : t.blocks) end = std::max(end, b.end);
  steps_per_range_ = 1 + end / std::numeric_limits<step_range>::max();
  constexpr std::uint64_t bits = 256;
  const auto range_of = [&](std::uint32_t step) { return static_cast<step_range>(step / steps_per_range_); };
  for (std::size_t i = 0; i < t.blocks.size(); ++i) {
    const block_shape& b = t.blocks[i];
    extents_[i] = to_signed(b.extent);
    if (b.is_solid) full_steps_[i] = {b.last_begin, b.first_end};
    lifetime& x = lifetimes_[i];
    x.begin = range_of(b.begin);
    x.end = static_cast<step_range>(range_of(b.end - 1) + 1);
    for (std::uint64_t bit = b.begin * bits / end; bit <= (b.end - 1) * bits / end; ++bit)
      x.steps.bits.at(bit / 64) |= std::uint64_t{1} << bit % 64;
  }
}

partial_packing block_placer::place(placing_order order) {
  partial_packing a;
  a.bytes = request_.floor;
  a.address_of.resize(request_.blocks.size());
  place_until(a, order, std::numeric_limits<byte_count>::max());
  return a;
}

void block_placer::place_until(partial_packing& a, const placing_order& order, byte_count give_up_bytes) {
  for (const std::uint32_t i : order) {
    if (a.bytes >= give_up_bytes) return;
    a.order.push_back(i);
    insert(i, address_for(i, a), a);
  }
}

bool block_placer::place_earlier(const partial_packing& before, std::size_t old_place, std::size_t new_place,
                                 byte_count max_above_goal, partial_packing& a) {
  copy_first_placed(before, new_place, a);
  const auto moved = a.order.begin() + static_cast<std::ptrdiff_t>(old_place);
  std::rotate(a.order.begin() + static_cast<std::ptrdiff_t>(new_place), moved, moved + 1);
  step_set changed;  // union of the steps of block_moves_
  block_moves_.clear();
  for (std::size_t k = new_place; k < a.order.size(); ++k) {
    const std::uint32_t i = a.order[k];
    const std::int64_t old_address = before.address_of[i];
    const bool stays =
        k > new_place && (!changed.intersects(lifetimes_[i].steps) || would_take_same_gap(i, old_address));
    const std::int64_t at = stays ? old_address : address_for(i, a);
    insert(i, at, a);
    if (a.bytes_above_goal > max_above_goal) return false;
    if (k == new_place) {
      block_moves_.push_back({i, std::numeric_limits<std::int64_t>::max(), at});
      changed = lifetimes_[i].steps;
    } else if (at != old_address) {
      block_moves_.push_back({i, old_address, at});
      changed.add(lifetimes_[i].steps);
    }
    if (k != old_place) continue;
    // From this place on, the moved block was in the previous order, too.
    block_move& first = block_moves_.front();
    first.old_address = before.address_of[first.index];
    if (first.new_address != first.old_address) continue;
    block_moves_.erase(block_moves_.begin());
    if (block_moves_.empty()) {  // no other block moves
      placing_order new_order = std::move(a.order);
      a = before;
      a.order = std::move(new_order);
      return true;
    }
    changed = {};
    for (const block_move& c : block_moves_) changed.add(lifetimes_[c.index].steps);
  }
  return true;
}

bool block_placer::would_take_same_gap(std::uint32_t i, std::int64_t old_address) const {
  if (request_.rule != gap_rule::lowest_gap) return false;
  const std::int64_t above = old_address + extents_[i];
  const lifetime& x = lifetimes_[i];
  return std::ranges::all_of(block_moves_, [&](const block_move& c) {
    const lifetime& y = lifetimes_[c.index];
    if (y.begin >= x.end || x.begin >= y.end) return true;
    return c.old_address >= above &&
           (c.new_address >= above || c.new_address + extents_[c.index] <= old_address);
  });
}

// Sets `a` to the first `count` blocks in the order of `before`.
void block_placer::copy_first_placed(const partial_packing& before, std::size_t count, partial_packing& a) {
  a.order = before.order;
  a.address_of.resize(request_.blocks.size());
  a.placed.clear();
  a.begins.clear();
  a.ends.clear();
  a.bytes = request_.floor;
  a.bytes_above_goal = 0;
  is_kept_.assign(request_.blocks.size(), 0);
  for (std::size_t k = 0; k < count; ++k) is_kept_[a.order[k]] = 1;
  for (const std::uint32_t i : before.placed) {
    if (is_kept_[i] != 0) insert_at(a.placed.size(), i, before.address_of[i], a);
  }
}

void block_placer::insert(std::uint32_t i, std::int64_t at, partial_packing& a) const {
  const auto address = [&](std::uint32_t k) { return a.address_of[k]; };
  const auto after = std::ranges::upper_bound(a.placed, at, {}, address) - a.placed.begin();
  insert_at(static_cast<std::size_t>(after), i, at, a);
}

void block_placer::insert_at(std::size_t place, std::uint32_t i, std::int64_t at, partial_packing& a) const {
  const auto top = static_cast<byte_count>(at + extents_[i]);
  a.bytes = std::max(a.bytes, top);
  if (top > request_.goal)
    a.bytes_above_goal += std::min(top - request_.goal, static_cast<byte_count>(extents_[i]));
  a.address_of[i] = at;
  const auto after = static_cast<std::ptrdiff_t>(place);
  a.placed.insert(a.placed.begin() + after, i);
  a.begins.insert(a.begins.begin() + after, lifetimes_[i].begin);
  a.ends.insert(a.ends.begin() + after, lifetimes_[i].end);
}

// Compares many lifetimes at once.
void block_placer::for_each_overlapping_in_time(std::uint32_t i, const partial_packing& a,
                                                const auto& visit) const {
  // countr_zero() finds the first byte that is not 0, because the lowest bits of a word are its first byte.
  static_assert(std::endian::native == std::endian::little);
  constexpr std::size_t chunk = 128, word = sizeof(std::uint64_t);
  const std::size_t known = a.placed.size();
  const auto [begin, end, steps] = lifetimes_[i];
  const block_shape& b = request_.blocks[i];
  std::array<unsigned char, chunk> meets;  // NOLINT(cppcoreguidelines-pro-type-member-init): set below
  for (std::size_t first = 0; first < known; first += chunk) {
    const std::size_t count = std::min(chunk, known - first), words = (count + word - 1) / word;
    std::memset(&meets[words * word - word], 0, word);
    const step_range *const begins = a.begins.data() + first, *const ends = a.ends.data() + first;
    for (std::size_t k = 0; k < count; ++k)
      meets[k] = static_cast<unsigned char>((ends[k] > begin ? 1U : 0U) & (begins[k] < end ? 1U : 0U));
    for (std::size_t w = 0; w < words; ++w) {
      std::uint64_t some = 0;
      std::memcpy(&some, &meets[w * word], word);
      for (; some != 0; some &= some - 1) {
        const std::size_t k = first + w * word + static_cast<std::size_t>(std::countr_zero(some)) / 8;
        const std::uint32_t other = a.placed[k];
        if (steps_per_range_ > 1 &&
            (request_.blocks[other].begin >= b.end || b.begin >= request_.blocks[other].end))
          continue;
        if (!visit(other)) return;
      }
    }
  }
}

std::int64_t block_placer::address_for(std::uint32_t i, const partial_packing& a) {
  gap_finder found(request_, request_.blocks[i].alignment);
  if (request_.has_only_single_blocks) {
    const std::int64_t extent = extents_[i];
    for_each_overlapping_in_time(i, a, [&](std::uint32_t other) {
      return found.add({a.address_of[other] - extent, end_of(other, a)});
    });
  } else {
    find_forbidden_addresses(i, a);
    auto part = forbidden_to_parts_.begin();
    const auto add_parts_up_to = [&](std::int64_t above) {
      for (; part != forbidden_to_parts_.end() && part->above <= above; ++part) {
        if (!found.add(*part)) return false;
      }
      return true;
    };
    for (const offset_interval& x : forbidden_) {
      if (!add_parts_up_to(x.above) || !found.add(x)) return found.address();
    }
    add_parts_up_to(std::numeric_limits<std::int64_t>::max());
  }
  return found.address();
}

void block_placer::find_forbidden_addresses(std::uint32_t i, const partial_packing& a) {
  const block_shape& b = request_.blocks[i];
  forbidden_.clear();
  forbidden_to_parts_.clear();
  const full_steps mine = full_steps_[i];
  for_each_overlapping_in_time(i, a, [&](std::uint32_t other) {
    const std::int64_t begin = a.address_of[other];
    const full_steps& theirs = full_steps_[other];
    if (mine.begin < theirs.end && theirs.begin < mine.end) {
      forbidden_.push_back({begin - extents_[i], end_of(other, a)});
      return true;
    }
    if (b.is_single) {
      for (const offset_interval& x : forbidden_offsets_.forbidden_offsets(other, i))
        forbidden_to_parts_.push_back({begin - x.below, begin - x.above});
    } else {
      for (const offset_interval& x : forbidden_offsets_.forbidden_offsets(i, other))
        forbidden_to_parts_.push_back({begin + x.above, begin + x.below});
    }
    return true;
  });
  std::ranges::sort(forbidden_to_parts_, {}, &offset_interval::above);
}

}  // namespace um::placing
