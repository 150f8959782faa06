#include "planners/best_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>

namespace um {
namespace {

constexpr std::array all_ways{way::keep, way::swap, way::swap_in_time, way::again, way::again_held};
// What takes no more than the computes and five in a thousand of their time is good enough: a search that
// goes on gains less than measurements tell apart.
constexpr double good_enough = 1.005;
// What exceeding the budget by as much again costs at first, in times of all computing.
constexpr double first_price = 0.1;
// How hot annealing begins: first, from what was annealed before, and where little is to change; and ends.
constexpr double hot = 2, warm = 0.7, lukewarm = 0.075, cold = 0.025;

// What annealing tries next: changes of decisions for large classes.
class proposals {
 public:
  // `large`: of the choices' classes; `moves`: swaps as well. Refers to both.
  proposals(const choices& of, const std::vector<std::size_t>& large, bool moves)
      : of_(of),
        large_(large),
        moves_(moves && of.moves()),
        alike_(large.size()),
        refused_(of.classes().size() * all_ways.size()) {
    const auto bytes = [&](std::size_t i) { return of.classes()[large[i]].bytes; };
    for (std::size_t i = 0; i < large.size(); ++i) {
      for (std::size_t k = 0; k < large.size(); ++k) {
        if (bytes(k) == bytes(i)) alike_[i].push_back(k);
      }
    }
  }

  struct move {
    std::size_t first = 0;  // of large_
    way how = way::keep;
  };
  // Of large classes more often; the more seldom, the more often it was refused since it was last taken: most
  // swaps never pay, and each try of one takes as long as of what does.
  move draw(const std::vector<way>& ways, std::mt19937& dice) const {
    constexpr int most_draws = 20;
    const auto any = [&](std::size_t count) { return dice() % count; };
    const auto bytes = [&](std::size_t i) { return of_.classes()[large_[i]].bytes; };
    move m;
    for (int i = 0; i < most_draws; ++i) {
      const std::size_t one = any(large_.size()), other = any(large_.size());
      m = {bytes(one) < bytes(other) ? other : one, all_ways[any(all_ways.size())]};
      if (ways[large_[m.first]] == m.how || !may(large_[m.first], m.how)) continue;
      if (any(1 + std::size_t{refused_[of_move(m)]}) == 0) break;
    }
    return m;
  }

  // One decision, those of some neighbours alike, or two: mostly near each other, one of them taken back, or
  // those of two classes of one size exchanged, so that what is kept of a row of blocks moves along it.
  bool change(std::vector<way>& ways, const move& m, std::mt19937& dice) const {
    const auto any = [&](std::size_t count) { return dice() % count; };
    const auto set = [&](std::size_t i, way how) {
      const std::size_t c = large_[i];
      if (ways[c] == how || !may(c, how)) return false;
      ways[c] = how;
      return true;
    };
    const std::size_t kind = any(12);
    if (kind == 0) {
      bool changed = false;
      const std::size_t end = std::min(m.first + 2 + any(8), large_.size());
      for (std::size_t i = m.first; i < end; ++i) changed = set(i, m.how) || changed;
      return changed;
    }
    if (kind > 7) return exchange(ways, m.first, alike_[m.first][any(alike_[m.first].size())]);
    if (!set(m.first, m.how)) return false;
    if (kind > 3) return true;
    constexpr std::size_t near = 8;
    const bool far = any(4) == 0;
    const std::size_t from = far || m.first < near ? 0 : m.first - near;
    const std::size_t other = from + any(far ? large_.size() : std::min(2 * near + 1, large_.size() - from));
    if (other != m.first) {
      set(other, m.how == way::keep ? all_ways[1 + any(all_ways.size() - 1)] : way::keep);
    }
    return true;
  }

  void note(const move& m, bool taken) {
    std::uint32_t& refused = refused_[of_move(m)];
    refused = taken ? 0 : refused + 1;
  }

 private:
  bool may(std::size_t c, way how) const {
    return (moves_ || (how != way::swap && how != way::swap_in_time)) && of_.allows(c, how);
  }
  bool exchange(std::vector<way>& ways, std::size_t i, std::size_t k) const {
    way &one = ways[large_[i]], &other = ways[large_[k]];
    if (one == other || !may(large_[i], other) || !may(large_[k], one)) return false;
    std::swap(one, other);
    return true;
  }
  std::size_t of_move(const move& m) const {
    return large_[m.first] * all_ways.size() + static_cast<std::size_t>(m.how);
  }

  const choices& of_;
  const std::vector<std::size_t>& large_;
  bool moves_ = false;
  std::vector<std::vector<std::size_t>> alike_;  // per large class: all of its size, itself among them
  std::vector<std::uint32_t> refused_;           // per class and way: since it was last taken
};

// What has a price of what exceeds the budget: the sum over events parts what keeps one large tensor long
// from what keeps several small ones, the peak alone says nothing of what comes next.
enum class excess : std::uint8_t { summed, at_peak };

// What annealing lowers: time, and a price for each byte too much.
double energy_of(const evaluation& e, nanoseconds time, double price, excess what) {
  const double bytes = what == excess::at_peak ? static_cast<double>(e.excess) : e.over;
  return static_cast<double>(time) + price * bytes;
}

// What fits is better than what does not.
bool is_better(const evaluation& a, const evaluation& b) {
  if (a.over > 0 || b.over > 0) return a.over < b.over;
  if (a.said.time != b.said.time) return a.said.time < b.said.time;
  return a.said.to_device + a.said.to_host < b.said.to_device + b.said.to_host;
}

// What two make together, one's decisions before some large class and the other's from there on (one-point
// crossover, Holland 1975): how memory is best kept low where one stage of a network goes backward has little
// to do with how it is in the next.
std::vector<std::vector<way>> crossings(const std::vector<way>& head, const std::vector<way>& tail,
                                        const std::vector<std::size_t>& large) {
  std::vector<std::vector<way>> all;
  std::vector<way> ways = tail;
  auto from = head.begin();
  for (const std::size_t c : large) {
    if (ways != tail && ways != head && ways[c] != head[c]) all.push_back(ways);
    const auto until = head.begin() + static_cast<std::ptrdiff_t>(c) + 1;
    std::copy(from, until, ways.begin() + (from - head.begin()));
    from = until;
  }
  return all;
}

class search {
 public:
  search(choices& of, byte_count budget) : of_(of), budget_(budget) {
    for (std::size_t c = 0; c < of.classes().size(); ++c) {
      if (of.classes()[c].bytes >= budget / 2000) large_.push_back(c);
    }
  }

  const settled& now() const { return now_; }

  // All alike where they may be, the rest kept.
  void begin(way how) {
    std::vector<way> ways(of_.classes().size(), way::keep);
    for (const std::size_t c : large_) {
      if (of_.allows(c, how)) ways[c] = how;
    }
    begin(std::move(ways));
  }
  void begin(std::vector<way> ways) {
    now_.is = evaluate(ways, [](const evaluation&) { return true; });
    now_.ways = std::move(ways);
    peak_ = of_.peak();
  }

  // `just_enough`: what gives up more than is too much counts no more for it.
  void make_room(bool moves, bool just_enough) {
    while (now_.is.over > 0 && lower_peak(moves, just_enough)) {
    }
  }

  // One class after the other, as long as something gets better: of what is not kept small ones too. To give
  // up what is kept costs time and rarely makes waits shorter: only `all` of the large ones are tried.
  void improve_one_by_one(bool all) {
    constexpr int most_rounds = 2;
    bool better = true;
    for (int round = 0; better && round < most_rounds; ++round) {
      better = false;
      for (std::size_t c = 0; c < now_.ways.size(); ++c) {
        for (const way how : all_ways) {
          if (now_.ways[c] == way::keep && !(all && is_large(c) && copies(now_.is))) break;
          if (how == now_.ways[c] || !of_.allows(c, how)) continue;
          std::vector<way> ways = now_.ways;
          ways[c] = how;
          const evaluation e = evaluate(ways, [](const evaluation& m) { return m.over == 0; });
          if (!is_better(e, now_.is)) continue;
          now_ = {std::move(ways), e};
          better = true;
        }
      }
    }
  }

  // From now on.
  void put_price_on(excess what) { priced_ = what; }

  // With what the best of `pool` and another of it make together that was not begun with before: what takes
  // the least time, with a price on what is too much.
  void begin_crossed(const std::vector<settled>& pool) {
    const auto fittest = std::ranges::min_element(pool, is_better, &settled::is);
    const auto computing = static_cast<double>(of_.computing());
    const double price = first_price * computing / static_cast<double>(budget_);
    std::vector<way> chosen = fittest->ways;
    double least = std::numeric_limits<double>::max();
    const auto consider = [&](std::vector<way> ways) {
      if (std::ranges::find(begun_, ways) != begun_.end()) return;
      const evaluation e = evaluate_up_to(ways, least, price);
      if (e.said.time == 0 || energy_of(e, e.said.time, price, priced_) >= least) return;
      least = energy_of(e, e.said.time, price, priced_);
      chosen = std::move(ways);
    };
    for (const settled& other : pool) {
      std::ranges::for_each(crossings(other.ways, fittest->ways, large_), consider);
      std::ranges::for_each(crossings(fittest->ways, other.ways, large_), consider);
    }
    begun_.push_back(chosen);
    begin(std::move(chosen));
  }

  // Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) over decisions that may exceed the budget, which
  // has a price: it rises while they do and falls while they do not. `begin`: how much longer is often taken
  // at first, in parts of what a class is computed in on average. The dice start alike for each `round`.
  void anneal(std::size_t tries_for_each, double begin, bool moves, std::uint32_t round = 0) {
    if (large_.empty()) return;
    std::mt19937 dice{1 + round};
    proposals next(of_, large_, moves);
    const auto computing = static_cast<double>(of_.computing());
    const double usual = computing / static_cast<double>(large_.size());
    double price = first_price * computing / static_cast<double>(budget_);
    const double least_price = price / 5, most_price = price * 200;
    settled best = now_;
    const std::size_t tries = tries_for_each * large_.size();
    const double rate = std::min(60 / static_cast<double>(tries), 0.01);
    for (std::size_t i = 0; i < tries && !is_good_enough(best.is); ++i) {
      const double done = static_cast<double>(i) / static_cast<double>(tries);
      const double heat = usual * begin * std::pow(cold / begin, done);
      price = std::clamp(price * (now_.is.over > 0 ? 1 + rate : 1 - rate), least_price, most_price);
      if (i % (tries / 10 + 1) == 0 && best.is.over == 0) now_ = best;
      std::vector<way> ways = now_.ways;
      const proposals::move what = next.draw(ways, dice);
      if (!next.change(ways, what, dice)) continue;
      const double luck = -heat * std::log((static_cast<double>(dice()) + 1) / 4294967297.0);
      const double most = energy_of(now_.is, now_.is.said.time, price, priced_) + luck;
      const evaluation e = evaluate_up_to(ways, most, price);
      const bool taken = e.said.time != 0 && energy_of(e, e.said.time, price, priced_) <= most;
      next.note(what, taken);
      if (!taken) continue;
      now_ = {std::move(ways), e};
      if (is_better(e, best.is)) best = now_;
    }
    now_ = std::move(best);
  }

  bool is_good_enough(const evaluation& e) const {
    const double most = static_cast<double>(of_.computing()) * good_enough;
    return e.over == 0 && static_cast<double>(e.said.time) <= most;
  }

 private:
  // The time of what is `worth_timing` by its memory; 0 of the rest.
  evaluation evaluate(const std::vector<way>& ways, const auto& worth_timing) {
    evaluation e = of_.memory_of(ways, budget_);
    if (worth_timing(e)) of_.add_time(e);
    return e;
  }
  // What may have no more energy than `most`: nothing takes less than all computing.
  evaluation evaluate_up_to(const std::vector<way>& ways, double most, double price) {
    return evaluate(
        ways, [&](const evaluation& e) { return energy_of(e, of_.computing(), price, priced_) <= most; });
  }
  bool is_large(std::size_t c) const { return std::ranges::binary_search(large_, c); }
  static bool copies(const evaluation& e) { return e.said.to_device + e.said.to_host > 0; }

  // --- room where memory peaks ---

  struct candidate {
    std::size_t which = 0;
    way how = way::keep;
    double worth = 0;
  };

  std::vector<candidate> candidates(bool moves, bool just_enough) const {
    std::vector<candidate> all;
    const byte_count enough =
        just_enough ? now_.is.said.peak - std::min(now_.is.said.peak, budget_) : budget_;
    for (std::size_t c = 0; c < now_.ways.size(); ++c) {
      if (!of_.covers(c, peak_)) continue;
      const gap_class& x = of_.classes()[c];
      const way is = now_.ways[c];
      const auto add = [&](way how, nanoseconds time) {
        const byte_count bytes = std::min(x.bytes, enough);
        all.push_back({c, how, static_cast<double>(bytes) / static_cast<double>(time + 1000)});
      };
      if (x.again && is != way::again) {
        add(way::again, x.time_again);
        if (is != way::again_held) add(way::again_held, x.time_again * 10 / 9);
      }
      if (!moves) continue;
      if (is == way::keep) add(way::swap, x.time_moving / 4);
      if (is == way::keep || is == way::swap) add(way::swap_in_time, x.time_moving / 2);
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &candidate::worth);
    return all;
  }

  // Of what would make room at the peak, that which costs the least time for what it does to the whole.
  bool lower_peak(bool moves, bool just_enough) {
    constexpr std::size_t tried_at_once = 6;
    const std::vector<candidate> all = candidates(moves && of_.moves(), just_enough);
    std::optional<settled> best;
    position peak = 0;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      std::vector<way> ways = now_.ways;
      ways[all[i].which] = all[i].how;
      const evaluation e = evaluate(ways, [&](const evaluation& m) { return m.over < now_.is.over; });
      const double gain = now_.is.over - e.over;
      if (gain <= 0) continue;
      const nanoseconds was = now_.is.said.time;
      const double worth = gain / static_cast<double>(std::max(e.said.time - was, was / 20'000));
      if (worth <= most) continue;
      most = worth;
      best = {std::move(ways), e};
      peak = of_.peak();
    }
    if (!best) return false;
    now_ = std::move(*best);
    peak_ = peak;
    return true;
  }

  choices& of_;
  byte_count budget_;
  std::vector<std::size_t> large_;  // classes worth a try
  settled now_;
  position peak_ = 0;
  excess priced_ = excess::summed;
  std::vector<std::vector<way>> begun_;  // what was made of two
};

}  // namespace

settled settle(choices& of, byte_count budget, std::size_t tries_for_each) {
  search s(of, budget);
  std::optional<settled> best, unmoved;
  const auto better = [](const settled& a, const std::optional<settled>& b) {
    return !b || is_better(a.is, b->is);
  };
  const auto start = [&](way how, bool moves) {
    s.begin(how);
    s.make_room(moves, false);
    if (better(s.now(), best)) best = s.now();
    if (!moves && better(s.now(), unmoved)) unmoved = s.now();
  };
  if (of.moves()) start(way::keep, true);
  start(way::keep, false);
  start(way::again_held, false);
  start(way::again, false);
  // Where annealing ends is a matter of luck: better often than long. Where there is time for several rounds
  // the first makes no copies, of which few ever pay, and the second half begins with what the rounds before
  // it make together.
  constexpr std::size_t worth_more = 40, most = 440, a_round = 55;
  const std::size_t in_all =
      std::min(std::max<std::size_t>(tries_for_each / worth_more, 1) * tries_for_each, most);
  const std::size_t rounds = std::max<std::size_t>(in_all / a_round, 1), each = in_all / rounds;
  const settled first = *best;
  std::vector<settled> pool;
  for (std::uint32_t round = 0; round < rounds && !s.is_good_enough(best->is); ++round) {
    const bool moves = round > 0 || rounds == 1, crossed = rounds > 2 && 2 * round >= rounds;
    s.put_price_on(round % 2 == 1 && best->is.over == 0 ? excess::at_peak : excess::summed);
    if (crossed) {
      s.begin_crossed(pool);
    } else {
      s.begin(moves ? first.ways : unmoved->ways);
    }
    s.anneal(each, crossed ? warm : hot, moves, round);
    pool.push_back(s.now());
    if (better(s.now(), best)) best = s.now();
  }
  s.begin(best->ways);
  s.improve_one_by_one(true);
  return s.now();
}

settled settle_again(choices& of, byte_count budget, std::size_t tries_for_each, const settled& from) {
  search s(of, budget);
  s.begin(from.ways);
  s.make_room(true, true);
  settled little_changed = s.now();
  s.begin(from.ways);
  s.anneal(tries_for_each, lukewarm, true);
  return is_better(little_changed.is, s.now().is) ? little_changed : s.now();
}

}  // namespace um
