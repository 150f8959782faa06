#include "core/pack.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <utility>

namespace um {
namespace {

// An arena this close to the lower bound (1 part in so many) is not made smaller.
constexpr byte_count near_enough = 500;
// One this far from it (1 part in so many) is packed by the other rule, too.
constexpr byte_count far = 64;
// By how much an arena may grow on the way to a smaller one (1 part in so many).
constexpr byte_count most_rise = 60;
// How many comparisons of two blocks a search may take: some tens of milliseconds.
constexpr std::size_t most_comparisons = 40'000'000;
// Nor more than so many orders from one start: few blocks have few orders.
constexpr std::size_t most_tries = 2000;
// How often a search starts anew from each way of sorting: luck matters more than patience.
constexpr std::size_t rounds = 4;

// What is to be placed, and above which address.
struct task {
  std::vector<block> blocks;
  byte_count floor = 0;
  packer how = packer::best_fit;
};

bool is_empty(const block& b) {
  return b.bytes == 0 || b.begin >= b.end;
}

// Blocks that have an address, lowest first.
using placed_blocks = std::vector<std::size_t>;

// The gap for block `b` between the blocks that live at the same time.
byte_count gap_for(const task& t, const placed_blocks& placed, const std::vector<byte_count>& offset,
                   const block& b) {
  byte_count cursor = t.floor, best = 0, best_gap = 0;
  bool found = false;
  for (const std::size_t i : placed) {
    const block& other = t.blocks[i];
    if (other.begin >= b.end || b.begin >= other.end) continue;
    const byte_count at = round_up(cursor, b.alignment);
    if (at + b.bytes <= offset[i]) {
      const byte_count gap = offset[i] - cursor;
      if (t.how == packer::first_fit) return at;
      if (!found || gap < best_gap) {
        best = at;
        best_gap = gap;
        found = true;
      }
    }
    cursor = std::max(cursor, offset[i] + other.bytes);
  }
  return found ? best : round_up(cursor, b.alignment);
}

struct attempt {
  std::vector<std::size_t> order;
  std::vector<byte_count> offset;
  byte_count bytes = 0;
};

// Places blocks one by one. Gives up once the arena is known to exceed `most`.
std::optional<attempt> pack_in_order(const task& t, std::vector<std::size_t> order, byte_count most) {
  attempt result{std::move(order), std::vector<byte_count>(t.blocks.size()), t.floor};
  placed_blocks placed;
  placed.reserve(t.blocks.size());
  for (const std::size_t i : result.order) {
    const byte_count at = gap_for(t, placed, result.offset, t.blocks[i]);
    if (at + t.blocks[i].bytes > most) return std::nullopt;
    result.offset[i] = at;
    result.bytes = std::max(result.bytes, at + t.blocks[i].bytes);
    const auto after = std::upper_bound(placed.begin(), placed.end(), at,
                                        [&](byte_count a, std::size_t k) { return a < result.offset[k]; });
    placed.insert(after, i);
  }
  return result;
}

byte_count peak_live(std::span<const block> blocks) {
  struct change {
    std::uint32_t at;
    bool opens;
    byte_count bytes;
  };
  std::vector<change> changes;
  for (const block& b : blocks) {
    if (b.begin >= b.end) continue;
    changes.push_back({b.begin, true, b.bytes});
    changes.push_back({b.end, false, b.bytes});
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

// Indices of blocks, heaviest first.
template <class Weight>
std::vector<std::size_t> sorted_by(std::span<const block> blocks, const Weight& weight) {
  std::vector<std::size_t> order(blocks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return weight(blocks[i]); });
  return order;
}

// One attempt for each way of sorting, best first.
std::vector<attempt> sorted_attempts(const task& t) {
  const auto steps = [](const block& b) { return static_cast<byte_count>(b.end - b.begin); };
  std::vector<attempt> all;
  for (std::vector<std::size_t> order :
       {sorted_by(t.blocks, [](const block& b) { return b.bytes; }),
        sorted_by(t.blocks, [&](const block& b) { return b.bytes / arena_alignment * steps(b); }),
        sorted_by(t.blocks, steps)}) {
    all.push_back(*pack_in_order(t, std::move(order), std::numeric_limits<byte_count>::max()));
  }
  std::ranges::stable_sort(all, {}, &attempt::bytes);
  return all;
}

using generator = std::mt19937;

// A place in the order whose block lies above `goal`; every other time one that ends the arena.
// Nothing if no such block has one placed before it.
std::optional<std::size_t> culprit(const task& t, const attempt& a, byte_count goal, generator& dice) {
  const byte_count beyond = dice() % 2 == 0 ? a.bytes - 1 : goal;
  std::vector<std::size_t> all;
  for (std::size_t k = 1; k < a.order.size(); ++k) {
    const std::size_t b = a.order[k];
    if (a.offset[b] + t.blocks[b].bytes > beyond) all.push_back(k);
  }
  if (all.empty()) return std::nullopt;
  return all[dice() % all.size()];
}

// Moves blocks that lie above `goal` to earlier places in the order, one by one. At first an arena
// that is a little larger is taken, too, later none (threshold accepting, Dueck and Scheuer 1990).
attempt lowered(attempt now, byte_count goal, const task& t, std::size_t tries, generator& dice) {
  attempt best = now;
  for (std::size_t i = 0; i < tries && best.bytes > goal; ++i) {
    const auto from = culprit(t, now, goal, dice);
    if (!from) continue;
    std::vector<std::size_t> order = now.order;
    const auto moved = order.begin() + static_cast<std::ptrdiff_t>(*from);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(dice() % *from), moved, moved + 1);
    const byte_count tolerance = goal / most_rise * (tries - i) / tries;
    auto candidate = pack_in_order(t, std::move(order), now.bytes + tolerance);
    if (!candidate) continue;
    now = std::move(*candidate);
    if (now.bytes < best.bytes) best = now;
  }
  return best;
}

// The same blocks give the same arena: the dice start alike.
attempt searched(const task& t, byte_count goal) {
  const std::vector<attempt> all = sorted_attempts(t);
  const std::size_t count = t.blocks.size();
  const std::size_t tries =
      std::min(most_comparisons / (count * count + 1) / all.size() / rounds, most_tries);
  generator dice(1);  // NOLINT(cert-msc51-cpp): repeatable on purpose
  attempt best = all[0];
  for (std::size_t i = 0; i < rounds * all.size() && best.bytes > goal; ++i) {
    attempt candidate = lowered(all[i % all.size()], goal, t, tries, dice);
    if (candidate.bytes < best.bytes) best = std::move(candidate);
  }
  return best;
}

}  // namespace

packing pack(std::span<const block> blocks, packer how) {
  packing result;
  result.offset.assign(blocks.size(), 0);
  result.peak_live = peak_live(blocks);
  std::uint32_t begin = std::numeric_limits<std::uint32_t>::max(), end = 0;
  for (const block& b : blocks) {
    if (is_empty(b)) continue;
    begin = std::min(begin, b.begin);
    end = std::max(end, b.end);
  }
  // Blocks that live all the time lie at the bottom, where they leave no gaps.
  task others{{}, 0, how};
  std::vector<std::size_t> which;
  for (const std::size_t i : sorted_by(blocks, [](const block& b) { return b.alignment; })) {
    const block& b = blocks[i];
    if (is_empty(b)) continue;
    if (b.begin == begin && b.end == end) {
      result.offset[i] = round_up(others.floor, b.alignment);
      others.floor = result.offset[i] + b.bytes;
    } else {
      which.push_back(i);
      others.blocks.push_back(b);
    }
  }
  const byte_count goal = result.peak_live + result.peak_live / near_enough;
  attempt best = searched(others, goal);
  if (best.bytes > result.peak_live + result.peak_live / far) {  // which rule does better varies
    others.how = how == packer::best_fit ? packer::first_fit : packer::best_fit;
    attempt other = searched(others, goal);
    if (other.bytes < best.bytes) best = std::move(other);
  }
  for (std::size_t k = 0; k < which.size(); ++k) result.offset[which[k]] = best.offset[k];
  result.bytes = best.bytes;
  return result;
}

std::string_view to_text(packer how) {
  return how == packer::first_fit ? "first_fit" : "best_fit";
}

}  // namespace um
