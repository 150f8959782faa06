#include "planners/best_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "planners/best_moves.hpp"

namespace um {
namespace {

// A plan within five in a thousand of the operators' own time is good enough: measurements hardly tell less
// apart.
constexpr double good_enough = 1.005;
// The first price of exceeding the budget by its own size, in multiples of the operators' time.
constexpr double first_price = 0.1;
// Temperatures of annealing: at the start of a first round, of a round that starts from annealed solutions,
// and of small changes; at the end.
constexpr double hot = 2, warm = 0.7, lukewarm = 0.075, cold = 0.025;

// With fewer classes swaps are timed again at the end. With more the work is worth more elsewhere: of 95
// plans of larger networks six became faster by it and seven slower.
constexpr std::size_t few_classes = 96;

// In place of a limit: the evaluation is not timed.
constexpr nanoseconds untimed = -1;

// Which excess over the budget annealing puts a price on: bytes summed over events, or bytes at the peak.
enum class excess : std::uint8_t { summed, at_peak };

// The objective of annealing: time, and a price for each byte of excess.
double energy_of(const evaluation& e, nanoseconds time, double price, excess what) {
  const double bytes = what == excess::at_peak ? static_cast<double>(e.excess) : e.over;
  return static_cast<double>(time) + price * bytes;
}

bool copies(const evaluation& e) {
  return e.forecast.copy_count > 0;
}

// A solution that fits is better than one that does not. Of two that fit the faster is, then the one that
// copies less.
bool is_better(const evaluation& a, const evaluation& b) {
  if (a.over > 0 || b.over > 0) return a.over < b.over;
  if (!a.timed) return false;
  if (a.forecast.time != b.forecast.time) return a.forecast.time < b.forecast.time;
  return a.forecast.bytes_to_device + a.forecast.bytes_to_host <
         b.forecast.bytes_to_device + b.forecast.bytes_to_host;
}

// One-point crossovers (Holland 1975): decisions of `head` up to some large class, of `tail` from there on.
// Decisions for one stage of a network hardly depend on those for the next stage.
std::vector<std::vector<treatment>> crossovers(const std::vector<treatment>& head,
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

// This treatment for all large classes that allow it; the others are kept.
std::vector<treatment> treat_all(const search_space& of, const std::vector<std::size_t>& large,
                                 treatment how) {
  std::vector<treatment> treatments(of.classes().size(), treatment::keep);
  for (const std::size_t c : large) {
    if (of.allows(c, how)) treatments[c] = how;
  }
  return treatments;
}

// A decision that would make room at the peak.
struct candidate {
  std::size_t which = 0;
  treatment how = treatment::keep;
  nanoseconds time = 0;
  double worth = 0;  // bytes freed per nanosecond
};

// Decisions that free memory at position `peak`, the most bytes for their time first. Bytes beyond `enough`
// do not count.
std::vector<candidate> candidates_at(const search_space& of, const std::vector<treatment>& now, position peak,
                                     bool may_swap, byte_count enough) {
  std::vector<candidate> all;
  for (std::size_t c = 0; c < now.size(); ++c) {
    if (!of.gap_spans(c, peak)) continue;
    const gap_class& x = of.classes()[c];
    const treatment is = now[c];
    const auto add = [&](treatment how, nanoseconds time) {
      const byte_count bytes = std::min(x.bytes, enough);
      all.push_back({c, how, time, static_cast<double>(bytes) / static_cast<double>(time + 1000)});
    };
    if (x.is_recomputable && is != treatment::recompute) {
      add(treatment::recompute, x.recompute_time);
      if (is != treatment::recompute_and_keep) add(treatment::recompute_and_keep, x.recompute_time * 10 / 9);
    }
    if (!may_swap) continue;
    if (is == treatment::keep) add(treatment::swap, x.copy_time / 4);
    if (is == treatment::keep || is == treatment::swap) add(treatment::swap_just_in_time, x.copy_time / 2);
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

  const solution& current() const { return current_; }
  bool has_spent_its_work() const { return of_.work() >= end_; }
  void limit(std::uint64_t work) { end_ = of_.work() + work; }

  void begin(treatment how) { begin(treat_all(of_, large_, how)); }
  void begin(std::vector<treatment> treatments) {
    const evaluation e = evaluate(treatments, [](const evaluation&) { return any_time; });
    take({std::move(treatments), e});
  }

  // Gives up classes until the budget holds. `just_enough`: bytes beyond the excess do not raise their rank.
  void make_room(bool may_swap, bool just_enough) {
    while (current_.score.over > 0 && !has_spent_its_work() &&
           (lower_peak_at_once(may_swap, just_enough) || lower_peak(may_swap, just_enough))) {
    }
    if (!current_.score.timed) of_.add_time(current_.score = of_.memory_of(current_.treatments, budget_));
  }

  // Tries other treatments for one class of tensors at a time, until none makes the plan better. What stays
  // on the device is given up with `all` alone, and only large classes: that rarely shortens a wait.
  void improve_one_by_one(bool all) {
    constexpr int most_rounds = 2;
    bool better = true;
    for (int round = 0; better && round < most_rounds; ++round) {
      better = false;
      for (std::size_t c = 0; c < current_.treatments.size() && !has_spent_its_work(); ++c) {
        for (const treatment how : drawn_treatments) {
          if (current_.treatments[c] == treatment::keep && !(all && is_large(c) && copies(current_.score)))
            break;
          better = improve(c, how) || better;
        }
        if (current_.treatments.size() < few_classes && swaps(current_.treatments[c]))
          better = improve(c, treatment::swap_back_late) || better;
      }
    }
  }

  // Keeps one of the largest classes that are given up and gives up one of the largest kept ones instead, if
  // that is faster.
  void exchange_large() {
    constexpr std::size_t most_given_up = 12, most_kept = 48;
    std::vector<std::size_t> by_size = large_;
    std::ranges::stable_sort(by_size, std::ranges::greater{},
                             [&](std::size_t c) { return of_.classes()[c].bytes; });
    std::vector<std::size_t> given_up, kept;
    for (const std::size_t c : by_size) {
      std::vector<std::size_t>& side = current_.treatments[c] == treatment::keep ? kept : given_up;
      if (side.size() < (&side == &kept ? most_kept : most_given_up)) side.push_back(c);
    }
    for (const std::size_t c : given_up) {
      for (const std::size_t other : kept) {
        if (has_spent_its_work()) return;
        if (current_.treatments[other] != treatment::keep) continue;
        for (const treatment how : {treatment::swap, treatment::recompute}) {
          if (!of_.allows(other, how)) continue;
          std::vector<treatment> treatments = current_.treatments;
          treatments[c] = treatment::keep;
          treatments[other] = how;
          take_if_better(std::move(treatments));
        }
      }
    }
  }

  void set_priced_excess(excess what) { priced_ = what; }

  // Starts with the best crossover of the best of `pool` and another of it, among those not started with
  // before.
  void begin_with_crossover(const std::vector<solution>& pool) {
    const auto fittest = std::ranges::min_element(pool, is_better, &solution::score);
    const auto computing = static_cast<double>(of_.compute_time());
    const double price = first_price * computing / static_cast<double>(budget_);
    std::vector<treatment> chosen = fittest->treatments;
    double least = std::numeric_limits<double>::max();
    const auto consider = [&](std::vector<treatment> treatments) {
      if (std::ranges::find(starts_, treatments) != starts_.end()) return;
      const evaluation e = evaluate_up_to(treatments, least, price);
      if (!e.timed || energy_of(e, e.forecast.time, price, priced_) >= least) return;
      least = energy_of(e, e.forecast.time, price, priced_);
      chosen = std::move(treatments);
    };
    for (const solution& other : pool) {
      std::ranges::for_each(crossovers(other.treatments, fittest->treatments, large_), consider);
      std::ranges::for_each(crossovers(fittest->treatments, other.treatments, large_), consider);
    }
    starts_.push_back(chosen);
    begin(std::move(chosen));
  }

  // Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) over decisions that may exceed the budget at a
  // price, which rises while they do and falls while they do not. `begin`: the first temperature, in mean
  // operators' time per large class. Random numbers depend on `round` alone.
  void anneal(std::size_t tries_for_each, double begin, bool may_swap, std::uint32_t round = 0) {
    if (large_.empty()) return;
    std::mt19937 dice{1 + round};
    proposals next(of_, large_, may_swap);
    const auto computing = static_cast<double>(of_.compute_time());
    const double usual = computing / static_cast<double>(large_.size());
    double price = first_price * computing / static_cast<double>(budget_);
    const double least_price = price / 5, most_price = price * 200;
    solution best = current_;
    const std::size_t tries = tries_for_each * large_.size();
    const double rate = std::min(60 / static_cast<double>(tries), 0.01);
    for (std::size_t i = 0; i < tries && !is_good_enough(best.score) && !has_spent_its_work(); ++i) {
      const double done = static_cast<double>(i) / static_cast<double>(tries);
      const double heat = usual * begin * std::pow(cold / begin, done);
      price = std::clamp(price * (current_.score.over > 0 ? 1 + rate : 1 - rate), least_price, most_price);
      if (i % (tries / 10 + 1) == 0 && best.score.over == 0) take(best);
      std::vector<treatment> treatments = current_.treatments;
      const proposals::move what = next.draw(treatments, dice);
      if (!next.change(treatments, what, dice)) continue;
      const double luck = -heat * std::log((static_cast<double>(dice()) + 1) / 4294967297.0);
      const double most = energy_of(current_.score, current_.score.forecast.time, price, priced_) + luck;
      const evaluation e = evaluate_up_to(treatments, most, price);
      const bool taken = e.timed && energy_of(e, e.forecast.time, price, priced_) <= most;
      next.note(what, taken);
      if (!taken) continue;
      take({std::move(treatments), e});
      if (is_better(e, best.score)) best = current_;
    }
    take(std::move(best));
  }

  bool is_good_enough(const evaluation& e) const {
    const double most = static_cast<double>(of_.compute_time()) * good_enough;
    return e.over == 0 && static_cast<double>(e.forecast.time) <= most;
  }

 private:
  // Whether the plan is better with that treatment of one class; then it is taken.
  bool improve(std::size_t c, treatment how) {
    if (how == current_.treatments[c] || !of_.allows(c, how)) return false;
    std::vector<treatment> treatments = current_.treatments;
    treatments[c] = how;
    return take_if_better(std::move(treatments));
  }
  bool take_if_better(std::vector<treatment> treatments) {
    const evaluation e = evaluate(treatments, [&](const evaluation& m) {
      return m.over > 0 ? untimed : current_.score.over > 0 ? any_time : current_.score.forecast.time;
    });
    if (!is_better(e, current_.score)) return false;
    take({std::move(treatments), e});
    return true;
  }
  // Timed unless it surely takes longer than longest(memory). A time above that limit is not exact.
  evaluation evaluate(const std::vector<treatment>& treatments, const auto& longest) {
    evaluation e = of_.memory_of(treatments, budget_);
    const nanoseconds most = longest(e);
    if (e.least_time <= most) of_.add_time(e, most);
    return e;
  }
  // Timed if the objective may be `most` or less.
  evaluation evaluate_up_to(const std::vector<treatment>& treatments, double most, double price) {
    return evaluate(treatments, [&](const evaluation& e) {
      constexpr double never = untimed, any = 1e18;
      return static_cast<nanoseconds>(
          std::clamp(std::floor(most - energy_of(e, 0, price, priced_)), never, any));
    });
  }
  void take(solution s) {
    current_ = std::move(s);
    of_.take(current_.treatments, budget_);
  }
  bool is_large_network() const {
    constexpr std::size_t many = 384;
    return current_.treatments.size() >= many;
  }
  bool is_large(std::size_t c) const { return std::ranges::binary_search(large_, c); }

  // --- freeing memory at the peak ---

  std::vector<candidate> candidates(bool may_swap, bool just_enough) const {
    const byte_count peak = current_.score.forecast.peak;
    const byte_count enough = just_enough ? peak - std::min(peak, budget_) : budget_;
    return candidates_at(of_, current_.treatments, of_.peak(), may_swap, enough);
  }

  // In large networks: gives up many candidates at once, untested. Recomputed ones may need each other
  // (recurrent networks), so swaps alone are tried second.
  bool lower_peak_at_once(bool may_swap, bool just_enough) {
    constexpr std::size_t many = 96;  // below, one by one takes less than a second
    if (!is_large_network()) return false;
    std::vector<candidate> all = candidates(may_swap && of_.may_swap(), just_enough);
    if (all.size() < many) return false;
    if (give_up_together(all)) return true;
    std::erase_if(all, [](const candidate& c) { return c.how != treatment::swap_just_in_time; });
    return give_up_together(all);
  }

  bool give_up_together(const std::vector<candidate>& all) {
    constexpr std::size_t share = 8;
    for (std::size_t count = all.size() / share; count > 1; count /= 4) {
      std::vector<treatment> treatments = current_.treatments;
      byte_count gained = 0;
      for (std::size_t i = 0; i < count && gained < current_.score.excess; ++i) {
        if (treatments[all[i].which] != current_.treatments[all[i].which]) continue;
        treatments[all[i].which] = all[i].how;
        gained += of_.classes()[all[i].which].bytes;
      }
      const evaluation e = of_.memory_of(treatments, budget_);
      if (e.over >= current_.score.over) continue;
      take({std::move(treatments), e});
      return true;
    }
    return false;
  }

  // Gives up the candidate with the most excess removed for its time, of the first few.
  bool lower_peak(bool may_swap, bool just_enough) {
    constexpr std::size_t tried_at_once = 6;
    const std::vector<candidate> all = candidates(may_swap && of_.may_swap(), just_enough);
    std::optional<solution> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      std::vector<treatment> treatments = current_.treatments;
      treatments[all[i].which] = all[i].how;
      const evaluation e = evaluate(treatments, [&](const evaluation& m) {
        return !is_large_network() && m.over < current_.score.over ? any_time : untimed;
      });
      const double gain = current_.score.over - e.over;  // not above 0: not worth it
      // A forecast goes through all events, so large networks count the candidate's own time.
      const nanoseconds least = of_.compute_time() / 20'000;
      const nanoseconds more = e.timed ? e.forecast.time - current_.score.forecast.time : all[i].time;
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
  std::vector<std::size_t> large_;  // classes of at least a two-thousandth of the budget
  solution current_;
  excess priced_ = excess::summed;
  std::vector<std::vector<treatment>> starts_;  // crossovers that rounds started with
};

// Local search in both orders of its two steps, with half of the work each; the better result.
solution polished(search& s, const solution& from, std::uint64_t work) {
  s.begin(from.treatments);
  s.limit(work / 2);
  s.improve_one_by_one(true);
  if (s.is_good_enough(from.score)) return s.current();
  s.exchange_large();
  solution improved_first = s.current();
  s.begin(from.treatments);
  s.limit(work / 2);
  s.exchange_large();
  s.improve_one_by_one(true);
  return is_better(improved_first.score, s.current().score) ? improved_first : s.current();
}

}  // namespace

solution decide(search_space& of, byte_count budget, const effort& by) {
  search s(of, budget, by.work);
  const std::size_t tries_for_each = by.tries_for_each;
  std::optional<solution> best, unmoved;
  const auto better = [](const solution& a, const std::optional<solution>& b) {
    return !b || is_better(a.score, b->score);
  };
  // Each start may take an eighth of the work. Where they took all, as in deep recurrent networks, whose
  // every evaluation goes through long chains of recomputations, the others are skipped.
  const std::uint64_t begun = of.work();
  const auto start = [&](treatment how, bool may_swap) {
    if (best && of.work() - begun > by.work) return;
    s.limit(by.work / 8);
    s.begin(how);
    s.make_room(may_swap, false);
    if (better(s.current(), best)) best = s.current();
    if (!may_swap && better(s.current(), unmoved)) unmoved = s.current();
  };
  if (of.may_swap()) start(treatment::keep, true);
  start(treatment::keep, false);
  start(treatment::recompute_and_keep, false);
  // Chains of recomputations that are many times as long as the order would take all time and memory.
  constexpr std::size_t too_long = 8;
  if (computes_if_all_recomputed(of.uses(), of.gaps()) <= too_long * of.uses().order.size())
    start(treatment::recompute, false);
  s.limit(by.work / 2);
  // Several short rounds find more than one long one. The first of several makes no copies; the second half
  // of them starts with crossovers of earlier results.
  constexpr std::size_t worth_more = 40, a_round = 55;
  const std::size_t most = of.classes().size() < few_classes ? 2000 : 440;
  const std::size_t in_all =
      std::min(std::max<std::size_t>(tries_for_each / worth_more, 1) * tries_for_each, most);
  const std::size_t rounds = std::max<std::size_t>(in_all / a_round, 1), each = in_all / rounds;
  const solution first = *best;
  std::vector<solution> pool;
  for (std::uint32_t round = 0; round < rounds && !s.is_good_enough(best->score) && !s.has_spent_its_work();
       ++round) {
    const bool may_swap = round > 0 || rounds == 1 || !unmoved, crossed = rounds > 2 && 2 * round >= rounds;
    s.set_priced_excess(round % 2 == 1 && best->score.over == 0 ? excess::at_peak : excess::summed);
    if (crossed) {
      s.begin_with_crossover(pool);
    } else {
      s.begin(may_swap ? first.treatments : unmoved->treatments);
    }
    s.anneal(each, crossed ? warm : hot, may_swap, round);
    pool.push_back(s.current());
    if (better(s.current(), best)) best = s.current();
  }
  if (of.work() - begun > 2 * by.work) return *best;
  return polished(s, *best, by.work / 4);
}

solution decide_again(search_space& of, byte_count budget, const effort& by, const solution& from) {
  search s(of, budget, by.work);
  s.begin(from.treatments);
  s.make_room(true, true);
  solution little_changed = s.current();
  s.begin(from.treatments);
  s.anneal(by.tries_for_each, lukewarm, true);
  return is_better(little_changed.score, s.current().score) ? little_changed : s.current();
}

solution recompute_more(search_space& of, byte_count budget, const effort& by, const solution& from) {
  search s(of, budget, by.work);
  s.begin(from.treatments);
  s.make_room(false, true);
  solution best = s.current();
  if (best.score.over > 0 || s.is_good_enough(best.score)) return best;
  s.limit(by.work);
  s.anneal(by.tries_for_each, warm, false);
  s.improve_one_by_one(false);
  return is_better(best.score, s.current().score) ? best : s.current();
}

solution keep_more(search_space& of, byte_count budget, const effort& by, const solution& from) {
  search s(of, budget, by.work / 4);
  s.begin(from.treatments);
  s.improve_one_by_one(true);
  solution best = s.current();
  if (s.is_good_enough(best.score)) return best;
  s.limit(by.work / 2);
  s.anneal(by.tries_for_each, warm, true, 1);
  s.improve_one_by_one(true);
  if (is_better(s.current().score, best.score)) best = s.current();
  s.begin(best.treatments);
  s.limit(by.work / 4);
  s.exchange_large();
  return is_better(best.score, s.current().score) ? best : s.current();
}

}  // namespace um
