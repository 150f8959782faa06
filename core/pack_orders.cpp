// The packers of core/pack.hpp: the orders in which they place blocks.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "core/pack.hpp"
#include "core/pack_place.hpp"
#include "core/pack_recent.hpp"

namespace um {
namespace {

using placing::partial_packing, placing::block_placer, placing::gap_rule, placing::block_shape,
    placing::to_signed, placing::placement_request, placing::placing_order;

// The search stops when the arena is at most 1/500 larger than the lower bound.
constexpr byte_count near_enough = 500;
// A block below 1/1000 of the lower bound is small. Small blocks are placed last if together they are below
// 1/20 of it.
constexpr byte_count small = 1000, small_total = 20;
// A change of order may add at most 1/150 of the goal to the bytes above the goal.
constexpr byte_count max_rise = 150;
// Maximum number of comparisons between a block and the pieces of other blocks in a search: some tens of
// milliseconds. The first limit is for blocks of one piece, the second for others, which take longer.
constexpr std::size_t max_comparisons = 400'000'000, max_comparisons_of_pieces = 100'000'000;
// Limits of a search: number of orders, orders per start, minimum number of starts. More starts help more
// than longer runs.
constexpr std::size_t max_tries = 16'000, tries_each = 250, min_starts = 24;

// Indices of blocks, heaviest first.
placing_order heaviest_first(std::span<const block_shape> blocks, const auto& weight) {
  placing_order order(blocks.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::uint32_t i) { return weight(blocks[i]); });
  return order;
}

byte_count bytes_of(const block_shape& b) {
  byte_count all = 0;
  for (const piece& p : b.pieces) all += p.bytes;
  return all;
}
double bytes_times_steps_of(const block_shape& b) {
  double all = 0;
  for (const piece& p : b.pieces) all += static_cast<double>(p.bytes) * (p.end - p.begin);
  return all;
}
std::uint32_t lifetime_steps(const block_shape& b) {
  return b.end - b.begin;
}

using generator = std::mt19937;

// Draws a block above `goal` by its place in the order, but never the first; nothing if there is none.
std::optional<std::size_t> draw_place_above_goal(const partial_packing& a, const placement_request& t,
                                                 generator& dice) {
  const auto is_above = [&](std::uint32_t i) {
    return a.address_of[i] + to_signed(t.blocks[i].extent) > to_signed(t.goal);
  };
  const auto others = std::span(a.order).subspan(1);
  const auto count = static_cast<std::uint64_t>(std::ranges::count_if(others, is_above));
  if (count == 0) return std::nullopt;
  std::uint64_t skipped = dice() % count;
  std::size_t k = 1;
  while (!is_above(a.order[k]) || skipped-- > 0) ++k;
  return k;
}

// A block moves to an earlier place in the order. Then at least `bytes_above_goal` lie above the goal.
struct rejected_move {
  std::size_t old_place = 0, new_place = 0;
  byte_count bytes_above_goal = 0;
};

// Moves blocks above the goal to earlier places in the order, one by one, until none is above it. At first it
// also accepts orders with slightly more bytes above the goal, later none (threshold accepting, Dueck and
// Scheuer 1990).
partial_packing lower_blocks_above_goal(partial_packing now, const placement_request& t, block_placer& by,
                                        std::size_t tries, generator& dice) {
  constexpr std::uint32_t draw_levels = 1024;  // as many random shares of the largest rise
  partial_packing best = now, candidate;
  std::vector<rejected_move> rejected;  // of `now`; moves are often drawn again
  for (std::size_t i = 0; i < tries && best.bytes_above_goal > 0; ++i) {
    const auto old_place = draw_place_above_goal(now, t, dice);
    if (!old_place) break;
    const std::size_t new_place = dice() % *old_place;
    const byte_count rise = t.goal / max_rise * (tries - i) / tries * (dice() % draw_levels) / draw_levels;
    const byte_count most = now.bytes_above_goal + rise;
    const bool is_known = std::ranges::any_of(rejected, [&](const rejected_move& x) {
      return x.old_place == *old_place && x.new_place == new_place && x.bytes_above_goal > most;
    });
    if (is_known) continue;
    if (!by.place_earlier(now, *old_place, new_place, most, candidate)) {
      rejected.push_back({*old_place, new_place, candidate.bytes_above_goal});
      continue;
    }
    rejected.clear();
    std::swap(now, candidate);
    if (now.bytes_above_goal < best.bytes_above_goal) best = now;
  }
  return best;
}

// Per block: whether it is small and placed last.
std::vector<char> is_small_block(const placement_request& t) {
  std::vector<char> is_small;
  std::vector<block_shape> all;
  for (const block_shape& b : t.blocks) {
    is_small.push_back(bytes_of(b) < t.goal / small ? 1 : 0);
    if (is_small.back() != 0) all.push_back(b);
  }
  if (placing::peak_live(all) > t.goal / small_total) is_small.assign(t.blocks.size(), 0);
  return is_small;
}

// Uses a fixed seed, so that equal blocks give equal arenas.
partial_packing search_orders(placement_request& t) {
  const std::vector<char> is_small = is_small_block(t);
  const auto large_by = [&](const auto& weight) {
    placing_order order = heaviest_first(t.blocks, weight);
    std::erase_if(order, [&](std::uint32_t i) { return is_small[i] != 0; });
    return order;
  };
  const std::array orders{large_by(bytes_of), large_by(bytes_times_steps_of), large_by(lifetime_steps)};
  constexpr std::size_t start_count = 2 * orders.size();  // each order with both gap rules
  placing_order rest = heaviest_first(t.blocks, bytes_of);
  std::erase_if(rest, [&](std::uint32_t i) { return is_small[i] == 0; });
  std::size_t pieces = 0;
  for (const std::uint32_t i : orders[0]) pieces += t.blocks[i].pieces.size();
  const std::size_t tries =
      std::min((t.has_only_single_blocks ? max_comparisons : max_comparisons_of_pieces) /
                   (pieces * orders[0].size() + 1),
               max_tries);
  const std::size_t starts = tries < min_starts ? start_count : std::max(tries / tries_each, min_starts);
  generator dice(1);  // NOLINT(cert-msc51-cpp): repeatable on purpose
  std::optional<partial_packing> best;
  block_placer by(t);
  std::array<partial_packing, start_count> placed;  // each start, as it is placed at first
  bool may_differ = false;  // whether random moves changed a start, so that repeating it may help
  for (std::size_t i = 0; i < starts && (i < start_count || may_differ) && (!best || best->bytes > t.goal);
       ++i) {
    t.rule = i / orders.size() % 2 == 0 ? gap_rule::tightest_gap : gap_rule::lowest_gap;
    partial_packing& start = placed.at(i % start_count);
    if (i < start_count) start = by.place(orders[i % orders.size()]);
    partial_packing a = start;
    may_differ = may_differ || a.bytes_above_goal > 0;
    a = lower_blocks_above_goal(std::move(a), t, by, tries / starts, dice);
    t.rule = gap_rule::tightest_gap;
    by.place_until(a, rest, best ? best->bytes : std::numeric_limits<byte_count>::max());
    if (!best || a.bytes < best->bytes) best = std::move(a);
  }
  return *best;
}

// Blocks that live throughout are already placed at the bottom; the others are left to a search.
struct prepared_packing {
  packing result;
  placement_request searched;               // the blocks that are left to the search
  std::vector<std::size_t> original_index;  // per searched block: its index among all blocks
};

prepared_packing prepare_packing(std::span<const block> blocks) {
  prepared_packing p;
  std::vector<block_shape> shapes;
  shapes.reserve(blocks.size());
  std::uint32_t begin = std::numeric_limits<std::uint32_t>::max(), end = 0;
  for (const block& b : blocks) {
    shapes.push_back(placing::shape_of(b));
    begin = std::min(begin, shapes.back().begin);
    end = std::max(end, shapes.back().end);
  }
  p.result.offsets.assign(blocks.size(), 0);
  p.result.peak_live_bytes = placing::peak_live(shapes);
  for (const std::uint32_t i : heaviest_first(shapes, [](const block_shape& b) { return b.alignment; })) {
    const block_shape& b = shapes[i];
    if (b.pieces.empty()) continue;
    if (b.last_begin == begin && b.first_end == end) {
      p.result.offsets[i] = round_up(p.searched.floor, b.alignment);
      p.searched.floor = p.result.offsets[i] + b.extent;
    } else {
      p.original_index.push_back(i);
    }
  }
  for (const std::size_t i : p.original_index) {
    p.searched.has_only_single_blocks = p.searched.has_only_single_blocks && shapes[i].is_single;
    p.searched.blocks.push_back(std::move(shapes[i]));
  }
  return p;
}

packing to_packing(prepared_packing&& p, const partial_packing& a) {
  for (const std::uint32_t i : a.placed)
    p.result.offsets[p.original_index[i]] = static_cast<byte_count>(a.address_of[i]);
  p.result.bytes = a.bytes;
  return std::move(p.result);
}

// Packs without a search, in falling order of `weight`.
packing pack_once(std::span<const block> blocks, gap_rule how, const auto& weight) {
  prepared_packing p = prepare_packing(blocks);
  p.searched.rule = how;
  const partial_packing a = block_placer(p.searched).place(heaviest_first(p.searched.blocks, weight));
  return to_packing(std::move(p), a);
}

packing pack_by_search(std::span<const block> blocks) {
  prepared_packing p = prepare_packing(blocks);
  const byte_count peak = p.result.peak_live_bytes;
  p.searched.goal = peak + peak / near_enough;
  const partial_packing best = search_orders(p.searched);
  return to_packing(std::move(p), best);
}

auto weight_of_early_begin(const block_shape& b) {
  return -static_cast<std::int64_t>(b.begin);
}

}  // namespace

packing pack_searched(std::span<const block> blocks) {
  thread_local placing::recent_packings recent;
  return recent.find_or_make(blocks, pack_by_search);
}

packing pack_first_fit(std::span<const block> blocks) {
  return pack_once(blocks, gap_rule::lowest_gap, weight_of_early_begin);
}

packing pack_best_fit(std::span<const block> blocks) {
  return pack_once(blocks, gap_rule::tightest_gap, weight_of_early_begin);
}

packing pack_smartpool(std::span<const block> blocks) {
  return pack_once(blocks, gap_rule::tightest_gap,
                   [](const block_shape& b) { return std::pair(bytes_of(b), weight_of_early_begin(b)); });
}

std::span<const packer> all_packers() {
  static constexpr std::array all{packers::searched, packers::first_fit, packers::best_fit,
                                  packers::smartpool};
  return all;
}

const packer* find_packer(std::string_view name) {
  const auto at = std::ranges::find(all_packers(), name, &packer::name);
  return at == all_packers().end() ? nullptr : &*at;
}

}  // namespace um
