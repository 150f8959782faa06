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

// The search ends at a plan within 0.5 % of the operators' time: measurements hardly distinguish faster ones.
constexpr double good_enough = 1.005;
// Initial penalty for exceeding the budget by its own size, as a share of the operators' time.
constexpr double first_price = 0.1;
// Temperatures of annealing. Initial: `hot` in a first round, `warm` in a round that starts from annealed
// solutions, `mild` where copies take no time and after such rounds, `lukewarm` for small changes. Final:
// `cold`.
constexpr double hot = 2, warm = 0.7, mild = 0.5, lukewarm = 0.075, cold = 0.025;

// With fewer classes than this, local search also tries swap_back_late. With more classes the work is better
// spent elsewhere: of 95 plans of larger networks that made six faster and seven slower.
constexpr std::size_t few_classes_limit = 96;
// From this number on a network counts as large: the search frees many classes at once.
constexpr std::size_t many_classes = 384;

// A time limit that means: do not forecast the time.
constexpr nanoseconds untimed = -1;

// Which excess over the budget annealing penalizes: bytes summed over events, or bytes at the peak.
enum class priced_excess : std::uint8_t { summed, at_peak };

// The objective of annealing: time plus a penalty per byte of excess.
double energy_of(const evaluation& e, nanoseconds time, double price, priced_excess what) {
  const double bytes = what == priced_excess::at_peak ? static_cast<double>(e.peak_excess) : e.excess;
  return static_cast<double>(time) + price * bytes;
}

// Whether `a` fits and `b` does not or is slower by half a percent, more than packing usually adds.
bool is_clearly_better(const evaluation& a, const evaluation& b) {
  return a.excess == 0 && (b.excess > 0 || a.forecast.time < b.forecast.time - b.forecast.time / 200);
}

// The evaluation, with the lower bound of its time as its time.
evaluation with_min_time(evaluation e) {
  e.has_time = true;
  e.forecast.time = e.min_time;
  return e;
}

bool has_copies(const evaluation& e) {
  return e.forecast.copy_count > 0;
}

// Whether `a` is better: of two that exceed the budget, the one with less excess; one that fits before one
// that does not; of two that fit, the faster and then the one that copies less.
bool is_better(const evaluation& a, const evaluation& b) {
  if (a.excess > 0 || b.excess > 0) return a.excess < b.excess;
  if (!a.has_time) return false;
  if (a.forecast.time != b.forecast.time) return a.forecast.time < b.forecast.time;
  return a.forecast.bytes_to_device + a.forecast.bytes_to_host <
         b.forecast.bytes_to_device + b.forecast.bytes_to_host;
}

// One-point crossovers (Holland 1975): treatments of `head` up to some large class and of `tail` after it.
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

// Gives this treatment to all large classes that allow it and keeps the others.
std::vector<treatment> treat_all(const search_space& of, const std::vector<std::size_t>& large,
                                 treatment how) {
  std::vector<treatment> treatments(of.classes().size(), treatment::keep);
  for (const std::size_t c : large) {
    if (of.allows(c, how)) treatments[c] = how;
  }
  return treatments;
}

// Swaps large parameters and their gradients when they are not needed until the end of the iteration, or from
// its start. Those between two uses stay.
std::vector<treatment> swap_parameters(const search_space& of, const std::vector<std::size_t>& large,
                                       std::vector<treatment> treatments) {
  for (const std::size_t c : large) {
    const gap& e = of.gaps()[of.classes()[c].gaps.front()];
    const role use = of.of_problem().network.tensors[of.uses().parts[e.part].tensor].role;
    const bool is_at_an_end = e.last_use < 0 || e.next_use >= of.uses().end();
    if ((persists(use) || belongs_to_parameter(use)) && is_at_an_end)
      treatments[c] = treatment::swap_just_in_time;
  }
  return treatments;
}

std::vector<std::size_t> recomputable_classes(const search_space& of, std::vector<std::size_t> classes) {
  std::erase_if(classes, [&](std::size_t c) { return !of.classes()[c].is_recomputable; });
  return classes;
}

struct freed_and_kept {
  std::vector<std::size_t> freed, kept;
};
// The largest classes that are not kept, and the largest that are.
freed_and_kept largest_freed_and_kept(const search_space& of, std::vector<std::size_t> classes,
                                      const std::vector<treatment>& treatments) {
  constexpr std::size_t most_freed = 12, most_kept = 48;
  std::ranges::stable_sort(classes, std::ranges::greater{},
                           [&](std::size_t c) { return of.classes()[c].bytes; });
  freed_and_kept found;
  for (const std::size_t c : classes) {
    const bool is_kept = treatments[c] == treatment::keep;
    std::vector<std::size_t>& side = is_kept ? found.kept : found.freed;
    if (side.size() < (is_kept ? most_kept : most_freed)) side.push_back(c);
  }
  return found;
}

// A treatment of a class that would free memory at the peak.
struct candidate {
  std::size_t class_index = 0;
  treatment how = treatment::keep;
  nanoseconds time = 0;
  double worth = 0;  // bytes freed per nanosecond
};

// Treatments that free memory at position `peak`, in falling order of bytes per time. Bytes beyond `enough`
// do not count.
std::vector<candidate> candidates_at(const search_space& of, const std::vector<treatment>& now, position peak,
                                     bool may_swap, byte_count enough) {
  std::vector<candidate> all;
  for (std::size_t c = 0; c < now.size(); ++c) {
    if (!of.spans_position(c, peak)) continue;
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

class decision_search {
 public:
  decision_search(search_space& of, byte_count budget, std::uint64_t most_work)
      : space_(of), budget_(budget), work_limit_(of.work() + most_work) {
    for (std::size_t c = 0; c < of.classes().size(); ++c) {
      if (of.classes()[c].bytes >= budget / 2000) large_.push_back(c);
    }
  }

  const solution& current() const { return current_; }
  const std::vector<std::size_t>& large() const { return large_; }
  bool has_spent_its_work() const { return space_.work() >= work_limit_; }
  void set_work_limit(std::uint64_t work) { work_limit_ = space_.work() + work; }

  void start_from(treatment how) { start_from(treat_all(space_, large_, how)); }
  void start_from(std::vector<treatment> treatments) {
    const evaluation e = evaluate(treatments, [](const evaluation&) { return any_time; });
    set_current({std::move(treatments), e});
  }

  // Frees classes until the budget is kept. `just_enough`: bytes beyond the excess do not raise a candidate's
  // rank.
  void fit_budget(bool may_swap, bool just_enough) {
    while (current_.score.excess > 0 && std::isfinite(current_.score.excess) && !has_spent_its_work() &&
           (free_many_classes(may_swap, just_enough) || free_best_class(may_swap, just_enough))) {
    }
    if (!current_.score.has_time)
      space_.add_time(current_.score = space_.memory_of(current_.treatments, budget_));
  }

  // Tries other treatments for one class at a time, until none makes the plan better. Kept classes are
  // skipped unless `all`, and then only large ones are tried, since freeing them rarely saves time.
  void improve_one_by_one(bool all) {
    constexpr int most_rounds = 2;
    bool better = true;
    for (int round = 0; better && round < most_rounds; ++round) {
      better = false;
      for (std::size_t c = 0; c < current_.treatments.size() && !has_spent_its_work(); ++c) {
        for (const treatment how : drawn_treatments) {
          if (current_.treatments[c] == treatment::keep &&
              !(all && is_large(c) && has_copies(current_.score)))
            break;
          better = try_treatment(c, how) || better;
        }
        if (current_.treatments.size() < few_classes_limit && swaps(current_.treatments[c]))
          better = try_treatment(c, treatment::swap_back_late) || better;
      }
    }
  }

  // Exchanges a large class that is not kept with a large kept one, if that is faster.
  void exchange_large_classes() {
    const auto [freed, kept] = largest_freed_and_kept(space_, large_, current_.treatments);
    for (const std::size_t c : freed) {
      for (const std::size_t other : kept) {
        if (has_spent_its_work()) return;
        if (current_.treatments[other] != treatment::keep) continue;
        for (const treatment how : {treatment::swap, treatment::recompute}) {
          if (!space_.allows(other, how)) continue;
          std::vector<treatment> treatments = current_.treatments;
          treatments[c] = treatment::keep;
          treatments[other] = how;
          accept_if_better(std::move(treatments));
        }
      }
    }
  }

  void set_priced_excess(priced_excess what) { priced_ = what; }

  // While false, nothing waits for copies: times are the lower bounds of memory_of(), which take a tenth of
  // the work of a forecast, and annealing changes only recomputable classes.
  void set_waits_counted(bool counted) { waits_counted_ = counted; }

  // Starts from the best unused crossover of the best solution of `pool` with another one.
  void begin_with_crossover(const std::vector<solution>& pool) {
    const auto fittest = std::ranges::min_element(pool, is_better, &solution::score);
    const auto computing = static_cast<double>(space_.compute_time());
    const double price = first_price * computing / static_cast<double>(budget_);
    std::vector<treatment> chosen = fittest->treatments;
    double least = std::numeric_limits<double>::max();
    const auto consider = [&](std::vector<treatment> treatments) {
      if (std::ranges::find(used_crossovers_, treatments) != used_crossovers_.end()) return;
      const evaluation e = evaluate_up_to(treatments, least, price);
      if (!e.has_time || energy_of(e, e.forecast.time, price, priced_) >= least) return;
      least = energy_of(e, e.forecast.time, price, priced_);
      chosen = std::move(treatments);
    };
    for (const solution& other : pool) {
      std::ranges::for_each(crossovers(other.treatments, fittest->treatments, large_), consider);
      std::ranges::for_each(crossovers(fittest->treatments, other.treatments, large_), consider);
    }
    used_crossovers_.push_back(chosen);
    start_from(std::move(chosen));
  }

  // Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983). Decisions may exceed the budget at a penalty,
  // which rises while they do and falls while they do not. Temperatures are in units of the operators' time
  // divided by the number of classes that it changes. Random numbers depend on `round` alone.
  void anneal(std::size_t tries_per_gap_class, double temperature, bool may_swap, std::uint32_t round = 0) {
    const std::vector<std::size_t> changed = waits_counted_ ? large_ : recomputable_classes(space_, large_);
    if (changed.empty()) return;
    std::mt19937 dice{1 + round};
    move_proposer next(space_, changed, may_swap);
    const auto computing = static_cast<double>(space_.compute_time());
    const double usual = computing / static_cast<double>(changed.size());
    double price = first_price * computing / static_cast<double>(budget_);
    const double least_price = price / 5, most_price = price * 200;
    solution best = current_;
    const std::size_t tries = tries_per_gap_class * changed.size();
    const double rate = std::min(60 / static_cast<double>(tries), 0.01);
    for (std::size_t i = 0; i < tries && !is_good_enough(best.score) && !has_spent_its_work(); ++i) {
      const double done = static_cast<double>(i) / static_cast<double>(tries);
      const double heat = usual * temperature * std::pow(cold / temperature, done);
      price = std::clamp(price * (current_.score.excess > 0 ? 1 + rate : 1 - rate), least_price, most_price);
      if (i % (tries / 10 + 1) == 0 && best.score.excess == 0) set_current(best);
      std::vector<treatment> treatments = current_.treatments;
      const move_proposer::move what = next.draw(treatments, dice);
      if (!next.apply(treatments, what, dice)) continue;
      const double luck = -heat * std::log((static_cast<double>(dice()) + 1) / 4294967297.0);
      const double most = energy_of(current_.score, current_.score.forecast.time, price, priced_) + luck;
      const evaluation e = evaluate_up_to(treatments, most, price);
      const bool taken = e.has_time && energy_of(e, e.forecast.time, price, priced_) <= most;
      next.record_outcome(what, taken);
      if (!taken) continue;
      set_current({std::move(treatments), e});
      if (is_better(e, best.score)) best = current_;
    }
    set_current(std::move(best));
  }

  bool is_good_enough(const evaluation& e) const {
    const double most = static_cast<double>(space_.compute_time()) * good_enough;
    return e.excess == 0 && static_cast<double>(e.forecast.time) <= most;
  }

 private:
  // Gives the class that treatment if that is better. Returns whether it is.
  bool try_treatment(std::size_t c, treatment how) {
    if (how == current_.treatments[c] || !space_.allows(c, how)) return false;
    std::vector<treatment> treatments = current_.treatments;
    treatments[c] = how;
    return accept_if_better(std::move(treatments));
  }
  bool accept_if_better(std::vector<treatment> treatments) {
    const evaluation e = evaluate(treatments, [&](const evaluation& m) {
      return m.excess > 0 ? untimed : current_.score.excess > 0 ? any_time : current_.score.forecast.time;
    });
    if (!is_better(e, current_.score)) return false;
    set_current({std::move(treatments), e});
    return true;
  }
  // Forecasts the time unless its lower bound exceeds longest(memory). A time above that limit is not exact.
  evaluation evaluate(const std::vector<treatment>& treatments, const auto& longest) {
    evaluation e = space_.memory_of(treatments, budget_);
    if (!waits_counted_) return with_min_time(e);
    const nanoseconds most = longest(e);
    if (e.min_time <= most) space_.add_time(e, most);
    return e;
  }
  // Forecasts the time only if the objective may be `most` or less.
  evaluation evaluate_up_to(const std::vector<treatment>& treatments, double most, double price) {
    return evaluate(treatments, [&](const evaluation& e) {
      constexpr double never = untimed, any = 1e18;
      return static_cast<nanoseconds>(
          std::clamp(std::floor(most - energy_of(e, 0, price, priced_)), never, any));
    });
  }
  void set_current(solution s) {
    current_ = std::move(s);
    space_.make_current(current_.treatments, budget_);
  }
  bool is_large_network() const { return current_.treatments.size() >= many_classes; }
  bool is_large(std::size_t c) const { return std::ranges::binary_search(large_, c); }

  // --- freeing memory at the peak ---

  std::vector<candidate> candidates(bool may_swap, bool just_enough) const {
    const byte_count peak = current_.score.forecast.peak;
    const byte_count enough = just_enough ? peak - std::min(peak, budget_) : budget_;
    return candidates_at(space_, current_.treatments, space_.peak_position(), may_swap, enough);
  }

  // In large networks, frees many candidates at once, untested. Recomputed ones may need each other
  // (recurrent networks), so a second attempt takes swaps alone.
  bool free_many_classes(bool may_swap, bool just_enough) {
    constexpr std::size_t many = 96;  // with fewer candidates, freeing one by one takes less than a second
    if (!is_large_network()) return false;
    std::vector<candidate> all = candidates(may_swap && space_.may_swap(), just_enough);
    if (all.size() < many) return false;
    if (free_together(all)) return true;
    std::erase_if(all, [](const candidate& c) { return c.how != treatment::swap_just_in_time; });
    return free_together(all);
  }

  bool free_together(const std::vector<candidate>& all) {
    constexpr std::size_t share = 8;
    for (std::size_t count = all.size() / share; count > 1; count /= 4) {
      std::vector<treatment> treatments = current_.treatments;
      byte_count gained = 0;
      for (std::size_t i = 0; i < count && gained < current_.score.peak_excess; ++i) {
        if (treatments[all[i].class_index] != current_.treatments[all[i].class_index]) continue;
        treatments[all[i].class_index] = all[i].how;
        gained += space_.classes()[all[i].class_index].bytes;
      }
      const evaluation e = space_.memory_of(treatments, budget_);
      if (e.excess >= current_.score.excess) continue;
      set_current({std::move(treatments), e});
      return true;
    }
    return false;
  }

  // Of the first few candidates, frees the one that removes the most excess for its time.
  bool free_best_class(bool may_swap, bool just_enough) {
    constexpr std::size_t tried_at_once = 6;
    const std::vector<candidate> all = candidates(may_swap && space_.may_swap(), just_enough);
    std::optional<solution> best;
    double most = 0;
    for (std::size_t i = 0; i < all.size() && (i < tried_at_once || !best); ++i) {
      std::vector<treatment> treatments = current_.treatments;
      treatments[all[i].class_index] = all[i].how;
      const evaluation e = evaluate(treatments, [&](const evaluation& m) {
        return !is_large_network() && m.excess < current_.score.excess ? any_time : untimed;
      });
      const double gain = current_.score.excess - e.excess;  // the excess that it removes
      // A forecast replays all events, so large networks use the candidate's estimated time instead.
      const nanoseconds least = space_.compute_time() / 20'000;
      const nanoseconds more = e.has_time ? e.forecast.time - current_.score.forecast.time : all[i].time;
      const double worth = gain / static_cast<double>(std::max(more, least));
      if (worth <= most) continue;
      most = worth;
      best = {std::move(treatments), e};
    }
    if (!best) return false;
    set_current(std::move(*best));
    return true;
  }

  search_space& space_;
  byte_count budget_;
  std::uint64_t work_limit_;
  std::vector<std::size_t> large_;  // classes of at least 1/2000 of the budget
  solution current_;
  priced_excess priced_ = priced_excess::summed;
  bool waits_counted_ = true;
  std::vector<std::vector<treatment>> used_crossovers_;  // crossovers that earlier rounds started from
};

constexpr std::size_t tries_of_round = 55;

// Decides what is recomputed while parameters are swapped and nothing waits for copies, in several rounds of
// annealing, half of which start from crossovers. Then counts waits again and decides the rest. Gives up when
// half of the rounds have found nothing that may be clearly better than `to_beat`. Makes ResNet-50 in a
// quarter of its footprint 5 % faster.
std::optional<solution> decide_recomputations(const search_space& of, decision_search& s,
                                              const std::vector<treatment>& from, const solution& to_beat,
                                              std::uint64_t work) {
  constexpr std::uint32_t rounds = 20;
  constexpr std::size_t tries_per_gap_class = 30;
  s.set_waits_counted(false);
  s.start_from(swap_parameters(of, s.large(), from));
  const solution first = s.current();
  solution best = first;
  std::vector<solution> pool;
  s.set_work_limit(work);
  for (std::uint32_t round = 0; round < rounds && !s.has_spent_its_work(); ++round) {
    const bool crossed = 2 * round >= rounds;
    if (2 * round == rounds && !is_clearly_better(best.score, to_beat.score)) break;
    s.set_priced_excess(round % 2 == 1 && best.score.excess == 0 ? priced_excess::at_peak
                                                                 : priced_excess::summed);
    if (crossed) {
      s.begin_with_crossover(pool);
    } else {
      s.start_from(first.treatments);
    }
    s.anneal(tries_per_gap_class, mild, false, round);
    pool.push_back(s.current());
    if (is_better(s.current().score, best.score)) best = s.current();
  }
  s.set_waits_counted(true);
  if (!is_clearly_better(best.score, to_beat.score)) return std::nullopt;
  s.start_from(best.treatments);
  s.set_work_limit(work);
  s.improve_one_by_one(true);
  s.set_priced_excess(priced_excess::summed);
  s.anneal(tries_of_round, mild, true);
  return s.current();
}

// Runs the two steps of local search in both orders, with half of the work each. Returns the better result.
solution polish_in_both_orders(decision_search& s, const solution& from, std::uint64_t work) {
  s.start_from(from.treatments);
  s.set_work_limit(work / 2);
  s.improve_one_by_one(true);
  if (s.is_good_enough(from.score)) return s.current();
  s.exchange_large_classes();
  solution improved_first = s.current();
  s.start_from(from.treatments);
  s.set_work_limit(work / 2);
  s.exchange_large_classes();
  s.improve_one_by_one(true);
  return is_better(improved_first.score, s.current().score) ? improved_first : s.current();
}

}  // namespace

bool is_promising(const evaluation& best, nanoseconds time_to_beat) {
  // In all networks tried, the steps after annealing made winning decisions at most a third faster.
  // Decisions above the budget are judged by their least time.
  return (best.excess > 0 ? best.min_time : best.forecast.time / 3 * 2) < time_to_beat;
}

solution decide(search_space& of, byte_count budget, const effort& by) {
  decision_search s(of, budget, by.max_work);
  const std::size_t tries_per_gap_class = by.tries_per_gap_class;
  std::optional<solution> best, swapless;
  const auto better = [](const solution& a, const std::optional<solution>& b) {
    return !b || is_better(a.score, b->score);
  };
  // Each start may take an eighth of the work. The last starts are skipped when the earlier ones took all, as
  // in deep recurrent networks, where every evaluation follows long chains of recomputations. Swapping
  // everything takes little work and is not skipped.
  const std::uint64_t begun = of.work();
  const auto start = [&](treatment how, bool may_swap) {
    const bool takes_little_work = how == treatment::swap_just_in_time;
    if (best && of.work() - begun > by.max_work && !takes_little_work) return;
    s.set_work_limit(by.max_work / 8);
    s.start_from(how);
    s.fit_budget(may_swap, false);
    if (better(s.current(), best)) best = s.current();
    if (!may_swap && better(s.current(), swapless)) swapless = s.current();
  };
  if (of.may_swap()) start(treatment::keep, true);
  // In large networks, freeing memory step by step ends far above the budget if copies take too long to be
  // hidden. Annealing cannot remove so much excess. Starting with everything swapped gives faster plans
  // there.
  if (best && best->score.peak_excess > budget / 4 && of.classes().size() >= many_classes)
    start(treatment::swap_just_in_time, true);
  start(treatment::keep, false);
  start(treatment::recompute_and_keep, false);
  // Recomputing everything is not tried if the chains of recomputations are many times as long as the order:
  // they would take all time and memory.
  constexpr std::size_t too_long = 8;
  if (computes_if_all_recomputed(of.uses(), of.gaps()) <= too_long * of.uses().order.size())
    start(treatment::recompute, false);
  s.set_work_limit(by.max_work / 2);
  // Several short rounds find better solutions than one long one. The first of several makes no copies; the
  // second half start from crossovers of earlier results.
  constexpr std::size_t worth_more = 40;
  const bool has_few = of.classes().size() < few_classes_limit;
  const std::size_t most = has_few ? 2000 : 440;
  const std::size_t in_all =
      std::min(std::max<std::size_t>(tries_per_gap_class / worth_more, 1) * tries_per_gap_class, most);
  const std::size_t rounds = std::max<std::size_t>(in_all / tries_of_round, 1), each = in_all / rounds;
  const solution first = *best;
  std::vector<solution> pool;
  for (std::uint32_t round = 0; round < rounds && !s.is_good_enough(best->score) && !s.has_spent_its_work();
       ++round) {
    const bool may_swap = round > 0 || rounds == 1 || !swapless, crossed = rounds > 2 && 2 * round >= rounds;
    s.set_priced_excess(round % 2 == 1 && best->score.excess == 0 ? priced_excess::at_peak
                                                                  : priced_excess::summed);
    if (crossed) {
      s.begin_with_crossover(pool);
    } else {
      s.start_from(may_swap ? first.treatments : swapless->treatments);
    }
    s.anneal(each, crossed ? warm : hot, may_swap, round);
    pool.push_back(s.current());
    if (better(s.current(), best)) best = s.current();
  }
  if (of.work() - begun > 2 * by.max_work || !is_promising(best->score, by.time_to_beat)) return *best;
  const solution polished = polish_in_both_orders(s, *best, by.max_work / 4);
  if (has_few || rounds == 1 || !of.may_swap() || !swapless || s.is_good_enough(polished.score))
    return polished;
  const std::optional<solution> found =
      decide_recomputations(of, s, swapless->treatments, polished, by.max_work / 3);
  if (!found || !is_clearly_better(found->score, polished.score)) return polished;
  return polish_in_both_orders(s, *found, by.max_work / 4);
}

solution decide_again(search_space& of, byte_count budget, const effort& by, const solution& from) {
  decision_search s(of, budget, by.max_work);
  s.start_from(from.treatments);
  s.fit_budget(true, true);
  solution little_changed = s.current();
  s.start_from(from.treatments);
  s.anneal(by.tries_per_gap_class, lukewarm, true);
  return is_better(little_changed.score, s.current().score) ? little_changed : s.current();
}

solution recompute_more(search_space& of, byte_count budget, const effort& by, const solution& from) {
  decision_search s(of, budget, by.max_work);
  s.start_from(from.treatments);
  s.fit_budget(false, true);
  const solution before_annealing = s.current();
  if (before_annealing.score.excess > 0 || s.is_good_enough(before_annealing.score)) return before_annealing;
  s.set_work_limit(by.max_work);
  s.anneal(by.tries_per_gap_class, warm, false);
  s.improve_one_by_one(false);
  return is_better(before_annealing.score, s.current().score) ? before_annealing : s.current();
}

solution keep_more(search_space& of, byte_count budget, const effort& by, const solution& from) {
  decision_search s(of, budget, by.max_work / 4);
  s.start_from(from.treatments);
  s.improve_one_by_one(true);
  solution best = s.current();
  if (s.is_good_enough(best.score)) return best;
  s.set_work_limit(by.max_work / 2);
  s.anneal(by.tries_per_gap_class, warm, true, 1);
  s.improve_one_by_one(true);
  if (is_better(s.current().score, best.score)) best = s.current();
  s.start_from(best.treatments);
  s.set_work_limit(by.max_work / 4);
  s.exchange_large_classes();
  return is_better(best.score, s.current().score) ? best : s.current();
}

}  // namespace um
