#include "core/pack.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
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
// How many comparisons of a block with the pieces of all blocks a search may take: some tens of
// milliseconds.
constexpr std::size_t most_comparisons = 40'000'000;
// Nor more than so many orders from one start: few blocks have few orders.
constexpr std::size_t most_tries = 2000;
// How often a search starts anew from each way of sorting: luck matters more than patience.
constexpr std::size_t rounds = 4;

enum class rule : std::uint8_t { lowest_gap, tightest_gap };

// A block with what placing asks for.
struct shape {
  std::vector<piece> pieces;  // by offset, empty ones left out
  byte_count extent = 0;      // where the highest one ends
  std::uint32_t begin = 0, end = 0;
  std::uint32_t last_begin = 0, first_end = 0;
  byte_count alignment = arena_alignment;
  bool is_single = false;  // one piece at offset 0
  bool is_solid = false;   // no byte of the extent belongs to no piece
};

bool is_empty(const piece& p) {
  return p.bytes == 0 || p.begin >= p.end;
}

shape shape_of(const block& b) {
  shape s;
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

// A block does not lie on another one at addresses outside (above, below).
struct taken {
  std::int64_t above = 0, below = 0;
};

std::int64_t signed_of(byte_count bytes) {
  return static_cast<std::int64_t>(bytes);
}

// Whether each piece of the one meets each of the other in time, so that neither lies within the other.
bool meet_whole(const shape& a, const shape& b) {
  return a.is_solid && b.is_solid && a.last_begin < b.first_end && b.last_begin < a.first_end;
}

// What `b` cannot have beside `other`, as addresses less that of `other`, in order.
void append_taken(const shape& b, const shape& other, std::vector<taken>& all) {
  const auto start = static_cast<std::ptrdiff_t>(all.size());
  for (const piece& p : b.pieces) {
    for (const piece& q : other.pieces) {
      if (p.begin >= q.end || q.begin >= p.end) continue;
      all.push_back({signed_of(q.offset) - signed_of(p.offset + p.bytes),
                     signed_of(q.offset + q.bytes) - signed_of(p.offset)});
    }
  }
  if (all.begin() + start == all.end()) return;
  std::sort(all.begin() + start, all.end(), [](const taken& x, const taken& y) { return x.above < y.above; });
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

// The above for every pair that meets, but not whole: few of all, and any number of orders ask for them.
class conflicts {
 public:
  explicit conflicts(std::span<const shape> blocks) {
    for (const shape& b : blocks) {
      row_.push_back(pairs_.size());
      if (b.is_single) continue;
      for (std::uint32_t other = 0; other < blocks.size(); ++other) {
        const shape& o = blocks[other];
        if (&o == &b || o.begin >= b.end || b.begin >= o.end || meet_whole(b, o)) continue;
        pairs_.push_back({other, all_.size()});
        append_taken(b, o, all_);
      }
    }
    row_.push_back(pairs_.size());
    pairs_.push_back({0, all_.size()});
  }

  // Of block `i`, not single, beside `other`, which it meets, but not whole.
  std::span<const taken> of(std::size_t i, std::uint32_t other) const {
    const auto row = std::span(pairs_).subspan(row_[i], row_[i + 1] - row_[i]);
    const auto at = std::ranges::lower_bound(row, other, {}, &pair::other) - row.begin();
    const pair* const found = pairs_.data() + row_[i] + at;
    return std::span(all_).subspan(found->first, found[1].first - found->first);
  }

 private:
  struct pair {
    std::uint32_t other = 0;
    std::size_t first = 0;  // where what it cannot have begins in all_
  };
  std::vector<std::size_t> row_;  // where the pairs of a block begin, and one past the last
  std::vector<pair> pairs_;       // and one past the last
  std::vector<taken> all_;
};

// What is to be placed, above which address and how.
struct task {
  std::vector<shape> blocks;
  byte_count floor = 0;
  rule how = rule::tightest_gap;
  bool all_single = true;
};

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

// A block that has an address, and where it ends.
struct spot {
  std::int64_t at = 0, top = 0;
  std::uint32_t which = 0;
};

struct attempt {
  std::vector<std::size_t> order;
  std::vector<spot> placed;                 // by address
  std::vector<std::uint32_t> begins, ends;  // of each of them, apart: all are compared for each block
  byte_count bytes = 0;

  void insert(std::size_t at, const spot& s, const shape& b) {
    const auto after = static_cast<std::ptrdiff_t>(at);
    placed.insert(placed.begin() + after, s);
    begins.insert(begins.begin() + after, b.begin);
    ends.insert(ends.begin() + after, b.end);
  }
};

// Places the blocks of a task in one order after another.
class placer {
 public:
  explicit placer(const task& t)
      : t_(t), between_(t.blocks), is_kept_(t.blocks.size()), meeting_(t.blocks.size() + 1) {}

  // Gives up once the arena is known to exceed `most`.
  std::optional<attempt> place(std::vector<std::size_t> order, byte_count most) {
    return place_after(0, empty(std::move(order)), most);
  }

  // As place(), for an order whose first `kept` blocks are those of `before`.
  std::optional<attempt> place(std::vector<std::size_t> order, byte_count most, const attempt& before,
                               std::size_t kept) {
    attempt a = empty(std::move(order));
    is_kept_.assign(t_.blocks.size(), 0);
    for (std::size_t k = 0; k < kept; ++k) is_kept_[a.order[k]] = 1;
    for (const spot& s : before.placed) {
      if (is_kept_[s.which] == 0) continue;
      a.insert(a.placed.size(), s, t_.blocks[s.which]);
      a.bytes = std::max(a.bytes, static_cast<byte_count>(s.top));
    }
    return place_after(kept, std::move(a), most);
  }

 private:
  std::optional<attempt> place_after(std::size_t kept, attempt&& a, byte_count most) {
    for (std::size_t k = kept; k < a.order.size(); ++k) {
      const std::size_t i = a.order[k];
      const shape& b = t_.blocks[i];
      const std::int64_t at = address_for(i, a), top = at + signed_of(b.extent);
      if (static_cast<byte_count>(top) > most) return std::nullopt;
      a.bytes = std::max(a.bytes, static_cast<byte_count>(top));
      const auto after = std::ranges::upper_bound(a.placed, at, {}, &spot::at);
      a.insert(static_cast<std::size_t>(after - a.placed.begin()), {at, top, static_cast<std::uint32_t>(i)},
               b);
    }
    return std::move(a);
  }

  attempt empty(std::vector<std::size_t> order) const {
    attempt a{std::move(order), {}, {}, {}, t_.floor};
    a.placed.reserve(t_.blocks.size());
    a.begins.reserve(t_.blocks.size());
    a.ends.reserve(t_.blocks.size());
    return a;
  }

  // Indices of those that meet `b` in time: few of many, found eight at a time.
  std::span<const std::uint32_t> meeting(const shape& b, const attempt& a) {
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

  // By the rule, beside what is placed.
  std::int64_t address_for(std::size_t i, const attempt& a) {
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

  // What block `i` cannot have, in order.
  void find_taken(std::size_t i, const attempt& a) {
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

  const task& t_;
  const conflicts between_;
  std::vector<char> is_kept_;         // per block
  std::vector<unsigned char> meets_;  // what is found for each block on the way
  std::vector<std::uint32_t> meeting_;
  std::vector<taken> taken_;
};

byte_count peak_live(std::span<const shape> blocks) {
  struct change {
    std::uint32_t at;
    bool opens;
    byte_count bytes;
  };
  std::vector<change> changes;
  for (const shape& b : blocks) {
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
    shapes.push_back(shape_of(b));
    begin = std::min(begin, shapes.back().begin);
    end = std::max(end, shapes.back().end);
  }
  p.result.offset.assign(blocks.size(), 0);
  p.result.peak_live = peak_live(shapes);
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
