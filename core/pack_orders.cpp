// The packers of core/pack.hpp: in which orders they have blocks placed.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "core/pack.hpp"
#include "core/pack_place.hpp"

namespace um {
namespace {

using placing::attempt, placing::placer, placing::rule, placing::shape, placing::signed_of, placing::spot,
    placing::task;

// An arena this close to the lower bound (1 part in so many) is not made smaller.
constexpr byte_count near_enough = 500;
// One this far from it (1 part in so many) is packed by the other rule, too.
constexpr byte_count far = 64;
// By how much an arena may grow on the way to a smaller one (1 part in so many).
constexpr byte_count most_rise = 60;
// How many comparisons of a block with the pieces of all blocks a search may take: some tens of
// milliseconds.
constexpr std::size_t most_comparisons = 40'000'000;
// Nor more than so many orders from one start: few blocks have few orders.
constexpr std::size_t most_tries = 2000;
// How often a search starts anew from each way of sorting: luck matters more than patience.
constexpr std::size_t rounds = 4;

// Indices of blocks, heaviest first.
template <class Weight>
std::vector<std::size_t> sorted_by(std::span<const shape> blocks, const Weight& weight) {
  std::vector<std::size_t> order(blocks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return weight(blocks[i]); });
  return order;
}

byte_count bytes_of(const shape& b) {
  byte_count all = 0;
  for (const piece& p : b.pieces) all += p.bytes;
  return all;
}
double bytes_times_steps_of(const shape& b) {
  double all = 0;
  for (const piece& p : b.pieces) all += static_cast<double>(p.bytes) * (p.end - p.begin);
  return all;
}
std::uint32_t steps_of(const shape& b) {
  return b.end - b.begin;
}

// One attempt for each way of sorting, best first.
std::vector<attempt> sorted_attempts(const task& t, placer& by) {
  std::vector<attempt> all;
  for (std::vector<std::size_t> order :
       {sorted_by(t.blocks, bytes_of), sorted_by(t.blocks, bytes_times_steps_of),
        sorted_by(t.blocks, steps_of)}) {
    all.push_back(*by.place(std::move(order), std::numeric_limits<byte_count>::max()));
  }
  std::ranges::stable_sort(all, {}, &attempt::bytes);
  return all;
}

using generator = std::mt19937;

// A place in the order whose block lies above `goal`; every other time one that ends the arena.
// Nothing if no such block has one placed before it.
std::optional<std::size_t> culprit(const attempt& a, std::vector<byte_count>& top, byte_count goal,
                                   generator& dice) {
  const byte_count beyond = dice() % 2 == 0 ? a.bytes - 1 : goal;
  for (const spot& s : a.placed) top[s.which] = static_cast<byte_count>(s.top);
  std::vector<std::size_t> all;
  for (std::size_t k = 1; k < a.order.size(); ++k) {
    if (top[a.order[k]] > beyond) all.push_back(k);
  }
  if (all.empty()) return std::nullopt;
  return all[dice() % all.size()];
}

// Moves blocks that lie above `goal` to earlier places in the order, one by one. At first an arena
// that is a little larger is taken, too, later none (threshold accepting, Dueck and Scheuer 1990).
attempt lowered(attempt now, byte_count goal, placer& by, std::size_t tries, generator& dice) {
  attempt best = now;
  std::vector<byte_count> top(now.order.size());
  for (std::size_t i = 0; i < tries && best.bytes > goal; ++i) {
    const auto from = culprit(now, top, goal, dice);
    if (!from) continue;
    const std::size_t to = dice() % *from;
    std::vector<std::size_t> order = now.order;
    const auto moved = order.begin() + static_cast<std::ptrdiff_t>(*from);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(to), moved, moved + 1);
    const byte_count tolerance = goal / most_rise * (tries - i) / tries;
    auto candidate = by.place(std::move(order), now.bytes + tolerance, now, to);
    if (!candidate) continue;
    now = std::move(*candidate);
    if (now.bytes < best.bytes) best = now;
  }
  return best;
}

// The same blocks give the same arena: the dice start alike.
attempt searched(const task& t, byte_count goal) {
  placer by(t);
  const std::vector<attempt> all = sorted_attempts(t, by);
  std::size_t pieces = 0;
  for (const shape& b : t.blocks) pieces += b.pieces.size();
  const std::size_t tries =
      std::min(most_comparisons / (pieces * t.blocks.size() + 1) / all.size() / rounds, most_tries);
  generator dice(1);  // NOLINT(cert-msc51-cpp): repeatable on purpose
  attempt best = all[0];
  for (std::size_t i = 0; i < rounds * all.size() && best.bytes > goal; ++i) {
    attempt candidate = lowered(all[i % all.size()], goal, by, tries, dice);
    if (candidate.bytes < best.bytes) best = std::move(candidate);
  }
  return best;
}

// Blocks in the order in which they were given, those at the bottom placed.
struct prepared {
  packing result;
  task others;
  std::vector<std::size_t> which;  // of each block of `others`: its place among all
};

prepared prepare(std::span<const block> blocks) {
  prepared p;
  std::vector<shape> shapes;
  shapes.reserve(blocks.size());
  std::uint32_t begin = std::numeric_limits<std::uint32_t>::max(), end = 0;
  for (const block& b : blocks) {
    shapes.push_back(placing::shape_of(b));
    begin = std::min(begin, shapes.back().begin);
    end = std::max(end, shapes.back().end);
  }
  p.result.offset.assign(blocks.size(), 0);
  p.result.peak_live = placing::peak_live(shapes);
  for (const std::size_t i : sorted_by(shapes, [](const shape& b) { return b.alignment; })) {
    const shape& b = shapes[i];
    if (b.pieces.empty()) continue;
    if (b.last_begin == begin && b.first_end == end) {
      p.result.offset[i] = round_up(p.others.floor, b.alignment);
      p.others.floor = p.result.offset[i] + b.extent;
    } else {
      p.which.push_back(i);
    }
  }
  for (const std::size_t i : p.which) {
    p.others.all_single = p.others.all_single && shapes[i].is_single;
    p.others.blocks.push_back(std::move(shapes[i]));
  }
  return p;
}

packing finished(prepared&& p, const attempt& a) {
  for (const spot& s : a.placed) p.result.offset[p.which[s.which]] = static_cast<byte_count>(s.at);
  p.result.bytes = a.bytes;
  return std::move(p.result);
}

// In one order, which is by `weight`, heaviest first.
template <class Weight>
packing pack_once(std::span<const block> blocks, rule how, const Weight& weight) {
  prepared p = prepare(blocks);
  p.others.how = how;
  const attempt a =
      *placer(p.others).place(sorted_by(p.others.blocks, weight), std::numeric_limits<byte_count>::max());
  return finished(std::move(p), a);
}

auto earlier_first(const shape& b) {
  return -static_cast<std::int64_t>(b.begin);
}

}  // namespace

packing pack_searched(std::span<const block> blocks) {
  prepared p = prepare(blocks);
  const byte_count peak = p.result.peak_live, goal = peak + peak / near_enough;
  attempt best = searched(p.others, goal);
  if (best.bytes > peak + peak / far) {  // which rule does better varies
    p.others.how = rule::lowest_gap;
    attempt other = searched(p.others, goal);
    if (other.bytes < best.bytes) best = std::move(other);
  }
  return finished(std::move(p), best);
}

packing pack_first_fit(std::span<const block> blocks) {
  return pack_once(blocks, rule::lowest_gap, earlier_first);
}

packing pack_best_fit(std::span<const block> blocks) {
  return pack_once(blocks, rule::tightest_gap, earlier_first);
}

packing pack_smartpool(std::span<const block> blocks) {
  return pack_once(blocks, rule::tightest_gap,
                   [](const shape& b) { return std::pair(bytes_of(b), earlier_first(b)); });
}

}  // namespace um
