#include "planners/best_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "planners/best_moves.hpp"

namespace um {
namespace {

// What takes no more than the computes and five in a thousand of their time is good enough: a search that
// goes on gains less than measurements tell apart.
constexpr double good_enough = 1.005;
// What exceeding the budget by as much again costs at first, in times of all computing.
constexpr double first_price = 0.1;
// How hot annealing begins: first, from what was annealed before, and where little is to change; and ends.
constexpr double hot = 2, warm = 0.7, lukewarm = 0.075, cold = 0.025;

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
  if (!a.timed) return false;
  if (a.forecast.time != b.forecast.time) return a.forecast.time < b.forecast.time;
  return a.forecast.bytes_to_device + a.forecast.bytes_to_host <
         b.forecast.bytes_to_device + b.forecast.bytes_to_host;
}

// What two make together, one's decisions before some large class and the other's from there on (one-point
// crossover, Holland 1975): how memory is best kept low where one stage of a network goes backward has little
// to do with how it is in the next.
std::vector<std::vector<treatment>> crossings(const std::vector<treatment>& head,
                                              const std::vector<treatment>& tail,
                                              const std::vector<std::size_t>& large) {
  std::vector<std::vector<treatment>> all;
  std::vector<treatment> treatments = tail;
  auto from = head.begin();
  for (const std::size_t c : large) {
    if (treatments != tail && treatments != head && treatments[c] != head[c]) all.push_back(treatments);
    const auto until = head.begin() + static_cast<std::ptrdiff_t>(c) + 1;
    std::copy(from, until, treatments.begin() + (from - head.begin()));
    from = until;
  }
  return all;
}

// A decision that would make room at the peak.
struct candidate {
  std::size_t which = 0;
  treatment how = treatment::keep;
  nanoseconds time = 0;
  double worth = 0;  // bytes for its time
};

// The worthiest first. What gives up more than `enough` bytes counts no more for it.
std::vector<candidate> candidates_at(const search_space& of, const std::vector<treatment>& now, position peak,
                                     bool moves, byte_count enough) {
  std::vector<candidate> all;
  for (std::size_t c = 0; c < now.size(); ++c) {
    if (!of.covers(c, peak)) continue;
    const gap_class& x = of.classes()[c];
    const treatment is = now[c];
    const auto add = [&](treatment how, nanoseconds time) {
      const byte_count bytes = std::min(x.bytes, enough);
      all.push_back({c, how, time, static_cast<double>(bytes) / static_cast<double>(time + 1000)});
    };
    if (x.again && is != treatment::again) {
      add(treatment::again, x.time_again);
      if (is != treatment::again_kept) add(treatment::again_kept, x.time_again * 10 / 9);
    }
    if (!moves) continue;
    if (is == treatment::keep) add(treatment::swap, x.time_moving / 4);
    if (is == treatment::keep || is == treatment::swap) add(treatment::swap_in_time, x.time_moving / 2);
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &candidate::worth);
  return all;
}

class search {
 public:
  search(search_space& of, byte_count budget, std::uint64_t most_work)
      : of_(of), budget_(budget), end_(of.work() + most_work) {
    for (std::size_t c = 0; c < of.classes().size(); ++c) {
      if (of.classes()[c].bytes >= budget / 2000) large_.push_back(c);
    }
  }

  const solution& now() const { return now_; }
  bool is_spent() const { return of_.work() >= end_; }
  void limit(std::uint64_t work) { end_ = of_.work() + work; }

  // All alike where they may be, the rest kept.
  void begin(treatment how) {
    std::vector<treatment> treatments(of_.classes().size(), treatment::keep);
    for (const std::size_t c : large_) {
      if (of_.allows(c, how)) treatments[c] = how;
    }
    begin(std::move(treatments));
  }
  void begin(std::vector<treatment> treatments) {
    const evaluation e = evaluate(treatments, [](const evaluation&) { return true; });
    take({std::move(treatments), e});
  }

  // `just_enough`: what gives up more than is too much counts no more for it.
  void make_room(bool moves, bool just_enough) {
    while (now_.is.over > 0 && !is_spent() &&
           (lower_peak_at_once(moves, just_enough) || lower_peak(moves, just_enough))) {
    }
    if (!now_.is.timed) of_.add_time(now_.is = of_.memory_of(now_.treatments, budget_));
  }

  // One class after the other, as long as something gets better: of what is not kept small ones too. To give
  // up what is kept costs time and rarely makes waits shorter: only `all` of the large ones are tried.
  void improve_one_by_one(bool all) {
    constexpr int most_rounds = 2;
    bool better = true;
    for (int round = 0; better && round < most_rounds; ++round) {
      better = false;
      for (std::size_t c = 0; c < now_.treatments.size() && !is_spent(); ++c) {
        for (const treatment how : all_treatments) {
          if (now_.treatments[c] == treatment::keep && !(all && is_large(c) && copies(now_.is))) break;
          if (how == now_.treatments[c] || !of_.allows(c, how)) continue;
          std::vector<treatment> treatments = now_.treatments;
          treatments[c] = how;
          const evaluation e = evaluate_to_improve(treatments);
          if (!is_better(e, now_.is)) continue;
          take({std::move(treatments), e});
          better = true;
        }
      }
    }
  }

  // What the largest that is not kept gives up, one of the largest kept ones may give up for less time:
  // weights that are read late come back unnoticed, those of the first operator do not.
  void exchange_large() {
    constexpr std::size_t most_given_up = 12, most_kept = 48;
    std::vector<std::size_t> by_size = large_;
    std::ranges::stable_sort(by_size, std::ranges::greater{},
                             [&](std::size_t c) { return of_.classes()[c].bytes; });
    std::vector<std::size_t> given_up, kept;
    for (const std::size_t c : by_size) {
      std::vector<std::size_t>& side = now_.treatments[c] == treatment::keep ? kept : given_up;
      if (side.size() < (&side == &kept ? most_kept : most_given_up)) side.push_back(c);
    }
    for (const std::size_t c : given_up) {
      for (const std::size_t other : kept) {
        if (is_spent()) return;
        if (now_.treatments[other] != treatment::keep) continue;
        for (const treatment how : {treatment::swap, treatment::again}) {
          if (!of_.allows(other, how)) continue;
          std::vector<treatment> treatments = now_.treatments;
          treatments[c] = treatment::keep;
          treatments[other] = how;
          const evaluation e = evaluate_to_improve(treatments);
          if (is_better(e, now_.is)) take({std::move(treatments), e});
        }
      }
    }
  }

  // From now on.
  void put_price_on(excess what) { priced_ = what; }

  // With what the best of `pool` and another of it make together that was not begun with before: what takes
  // the least time, with a price on what is too much.
  void begin_crossed(const std::vector<solution>& pool) {
    const auto fittest = std::ranges::min_element(pool, is_better, &solution::is);
    const auto computing = static_cast<double>(of_.computing());
    const double price = first_price * computing / static_cast<double>(budget_);
    std::vector<treatment> chosen = fittest->treatments;
    double least = std::numeric_limits<double>::max();
    const auto consider = [&](std::vector<treatment> treatments) {
      if (std::ranges::find(begun_, treatments) != begun_.end()) return;
      const evaluation e = evaluate_up_to(treatments, least, price);
      if (!e.timed || energy_of(e, e.forecast.time, price, priced_) >= least) return;
      least = energy_of(e, e.forecast.time, price, priced_);
      chosen = std::move(treatments);
    };
    for (const solution& other : pool) {
      std::ranges::for_each(crossings(other.treatments, fittest->treatments, large_), consider);
      std::ranges::for_each(crossings(fittest->treatments, other.treatments, large_), consider);
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
    solution best = now_;
    const std::size_t tries = tries_for_each * large_.size();
    const double rate = std::min(60 / static_cast<double>(tries), 0.01);
    for (std::size_t i = 0; i < tries && !is_good_enough(best.is) && !is_spent(); ++i) {
      const double done = static_cast<double>(i) / static_cast<double>(tries);
      const double heat = usual * begin * std::pow(cold / begin, done);
      price = std::clamp(price * (now_.is.over > 0 ? 1 + rate : 1 - rate), least_price, most_price);
      if (i % (tries / 10 + 1) == 0 && best.is.over == 0) take(best);
      std::vector<treatment> treatments = now_.treatments;
      const proposals::move what = next.draw(treatments, dice);
      if (!next.change(treatments, what, dice)) continue;
      const double luck = -heat * std::log((static_cast<double>(dice()) + 1) / 4294967297.0);
      const double most = energy_of(now_.is, now_.is.forecast.time, price, priced_) + luck;
      const evaluation e = evaluate_up_to(treatments, most, price);
      const bool taken = e.timed && energy_of(e, e.forecast.time, price, priced_) <= most;
      next.note(what, taken);
      if (!taken) continue;
      take({std::move(treatments), e});
      if (is_better(e, best.is)) best = now_;
    }
    take(std::move(best));
  }

  bool is_good_enough(const evaluation& e) const {
    const double most = static_cast<double>(of_.computing()) * good_enough;
    return e.over == 0 && static_cast<double>(e.forecast.time) <= most;
  }

 private:
  // With the time of what is `worth_timing`.
  evaluation evaluate(const std::vector<treatment>& treatments, const auto& worth_timing) {
    evaluation e = of_.memory_of(treatments, budget_);
    if (worth_timing(e)) of_.add_time(e);
    return e;
  }
  // What may have no more energy than `most`.
  evaluation evaluate_up_to(const std::vector<treatment>& treatments, double most, double price) {
    return evaluate(treatments,
                    [&](const evaluation& e) { return energy_of(e, e.least_time, price, priced_) <= most; });
  }
  // What may be better than now.
  evaluation evaluate_to_improve(const std::vector<treatment>& treatments) {
    return evaluate(treatments, [&](const evaluation& e) {
      return e.over == 0 && (now_.is.over > 0 || e.least_time <= now_.is.forecast.time);
    });
  }
  void take(solution s) {
    now_ = std::move(s);
    of_.take(now_.treatments, budget_);
  }
  bool is_large_network() const {
    constexpr std::size_t many = 384;
    return now_.treatments.size() >= many;
  }
  bool is_large(std::size_t c) const { return std::ranges::binary_search(large_, c); }
  static bool copies(const evaluation& e) { return e.forecast.copy_count > 0; }

  // --- room where memory peaks ---

  std::vector<candidate> candidates(bool moves, bool just_enough) const {
    const byte_count enough =
        just_enough ? now_.is.forecast.peak - std::min(now_.is.forecast.peak, budget_) : budget_;
    return candidates_at(of_, now_.treatments, of_.peak(), moves, enough);
  }

  // Where many could make room at the peak: the best of them together, without asking which does most. What
  // is computed again together may need each other (recurrent networks), what is swapped does not.
  bool lower_peak_at_once(bool moves, bool just_enough) {
    constexpr std::size_t many = 96;  // below, one by one takes less than a second
    if (!is_large_network()) return false;
    std::vector<candidate> all = candidates(moves && of_.moves(), just_enough);
    if (all.size() < many) return false;
    if (give_up_together(all)) return true;
    std::erase_if(all, [](const candidate& c) { return c.how != treatment::swap_in_time; });
    return give_up_together(all);
  }

  bool give_up_together(const std::vector<candidate>& all) {
    constexpr std::size_t share = 8;
    for (std::size_t count = all.size() / share; count > 1; count /= 4) {
      std::vector<treatment> treatments = now_.treatments;
      byte_count gained = 0;
      for (std::size_t i = 0; i < count && gained < now_.is.excess; ++i) {
        if (treatments[all[i].which] != now_.treatments[all[i].which]) continue;
        treatments[all[i].which] = all[i].how;
        gained += of_.classes()[all[i].which].bytes;
      }
      const evaluation e = of_.memory_of(treatments, budget_);
      if (e.over >= now_.is.over) continue;
      take({std::move(treatments), e});
      return true;
    }
    return false;
  }

  // Of what would make room at the peak, that which costs the least time for what it does to the whole.
  bool lower_peak(bool moves, bool just_enough) {
    constexpr std::size_t tried_at_once = 6;
    const std::vector<candidate> all = candidates(moves && of_.moves(), just_enough);
    std::optional<solution> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      std::vector<treatment> treatments = now_.treatments;
      treatments[all[i].which] = all[i].how;
      const evaluation e = evaluate(
          treatments, [&](const evaluation& m) { return !is_large_network() && m.over < now_.is.over; });
      const double gain = now_.is.over - e.over;
      if (gain <= 0) continue;
      // A forecast goes through all events; in large networks what the candidate takes on its own must do.
      const nanoseconds least = of_.computing() / 20'000;
      const nanoseconds more = e.timed ? e.forecast.time - now_.is.forecast.time : all[i].time;
      const double worth = gain / static_cast<double>(std::max(more, least));
      if (worth <= most) continue;
      most = worth;
      best = {std::move(treatments), e};
    }
    if (!best) return false;
    take(std::move(*best));
    return true;
  }

  search_space& of_;
  byte_count budget_;
  std::uint64_t end_;
  std::vector<std::size_t> large_;  // classes worth a try
  solution now_;
  excess priced_ = excess::summed;
  std::vector<std::vector<treatment>> begun_;  // what was made of two
};

// Improves in either order, with half of the work each: an exchange closes some ways to improve and opens
// others.
solution polished(search& s, const solution& from, std::uint64_t work) {
  s.begin(from.treatments);
  s.limit(work / 2);
  s.improve_one_by_one(true);
  if (s.is_good_enough(from.is)) return s.now();
  s.exchange_large();
  solution improved_first = s.now();
  s.begin(from.treatments);
  s.limit(work / 2);
  s.exchange_large();
  s.improve_one_by_one(true);
  return is_better(improved_first.is, s.now().is) ? improved_first : s.now();
}

}  // namespace

solution decide(search_space& of, byte_count budget, const effort& by) {
  search s(of, budget, by.work);
  const std::size_t tries_for_each = by.tries_for_each;
  std::optional<solution> best, unmoved;
  const auto better = [](const solution& a, const std::optional<solution>& b) {
    return !b || is_better(a.is, b->is);
  };
  // Each start may take an eighth of the work. Where all that can be is computed again, chains of it may be
  // longer than the rest of a plan many times over (recurrent networks): such starts lead nowhere.
  constexpr std::size_t too_long = 8;
  const auto start = [&](treatment how, bool moves) {
    s.limit(by.work / 8);
    s.begin(how);
    if (best && of.events() > too_long * of.uses().order.size()) return;
    s.make_room(moves, false);
    if (better(s.now(), best)) best = s.now();
    if (!moves && better(s.now(), unmoved)) unmoved = s.now();
  };
  if (of.moves()) start(treatment::keep, true);
  start(treatment::keep, false);
  start(treatment::again_kept, false);
  start(treatment::again, false);
  s.limit(by.work / 2);
  // Where annealing ends is a matter of luck: better often than long. Where there is time for several rounds
  // the first makes no copies, of which few ever pay, and the second half begins with what the rounds before
  // it make together.
  constexpr std::size_t worth_more = 40, most = 440, a_round = 55;
  const std::size_t in_all =
      std::min(std::max<std::size_t>(tries_for_each / worth_more, 1) * tries_for_each, most);
  const std::size_t rounds = std::max<std::size_t>(in_all / a_round, 1), each = in_all / rounds;
  const solution first = *best;
  std::vector<solution> pool;
  for (std::uint32_t round = 0; round < rounds && !s.is_good_enough(best->is) && !s.is_spent(); ++round) {
    const bool moves = round > 0 || rounds == 1, crossed = rounds > 2 && 2 * round >= rounds;
    s.put_price_on(round % 2 == 1 && best->is.over == 0 ? excess::at_peak : excess::summed);
    if (crossed) {
      s.begin_crossed(pool);
    } else {
      s.begin(moves ? first.treatments : unmoved->treatments);
    }
    s.anneal(each, crossed ? warm : hot, moves, round);
    pool.push_back(s.now());
    if (better(s.now(), best)) best = s.now();
  }
  return polished(s, *best, by.work / 4);
}

solution decide_again(search_space& of, byte_count budget, const effort& by, const solution& from) {
  search s(of, budget, by.work);
  s.begin(from.treatments);
  s.make_room(true, true);
  solution little_changed = s.now();
  s.begin(from.treatments);
  s.anneal(by.tries_for_each, lukewarm, true);
  return is_better(little_changed.is, s.now().is) ? little_changed : s.now();
}

solution give_up_more(search_space& of, byte_count budget, const effort& by, const solution& from) {
  search s(of, budget, by.work);
  s.begin(from.treatments);
  s.make_room(false, true);
  solution best = s.now();
  if (best.is.over > 0 || s.is_good_enough(best.is)) return best;
  s.limit(by.work);
  s.anneal(by.tries_for_each, warm, false);
  s.improve_one_by_one(false);
  return is_better(best.is, s.now().is) ? best : s.now();
}

solution keep_more(search_space& of, byte_count budget, const effort& by, const solution& from) {
  search s(of, budget, by.work / 4);
  s.begin(from.treatments);
  s.improve_one_by_one(true);
  solution best = s.now();
  if (s.is_good_enough(best.is)) return best;
  s.limit(by.work / 2);
  s.anneal(by.tries_for_each, warm, true, 1);
  s.improve_one_by_one(true);
  if (is_better(s.now().is, best.is)) best = s.now();
  s.begin(best.treatments);
  s.limit(by.work / 4);
  s.exchange_large();
  return is_better(best.is, s.now().is) ? best : s.now();
}

}  // namespace um
