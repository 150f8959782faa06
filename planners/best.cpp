// The best plan that a search finds: keep, swap or compute again for every tensor, and how to cut the batch.
#include "planners/best.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "core/layout.hpp"
#include "planners/best_ladder.hpp"
#include "planners/best_polish.hpp"
#include "planners/best_repair.hpp"
#include "planners/best_rivals.hpp"
#include "planners/best_search.hpp"
#include "planners/best_small.hpp"
#include "planners/best_spaces.hpp"
#include "planners/best_splits.hpp"
#include "planners/measured_parts.hpp"
#include "planners/order_of_use.hpp"
#include "planners/planners.hpp"
#include "schedule/notes.hpp"

namespace um {
namespace {

// Maximum number of operators of a network that is searched for all budgets of the ladder. In larger networks
// each budget would get too little work.
constexpr std::size_t small_network = 600;

// Limit of search_space::work for a whole search. A unit takes 25 to 33 ns. Of networks with few operators
// but many computes, a search that takes each split also without swaps gets four times as much: with the same
// work AlexNet's plan in managed memory takes 18.9 ms at ratio 1.5 instead of 8.9 ms.
std::uint64_t normal_work(const problem& p, const search_options& by) {
  const std::uint64_t size = p.network.ops.size();
  if (is_tiny(p)) return 2'000'000 + 800'000 * size;
  if (size <= tiny_network) return by.also_without_swaps ? 200'000'000 : 50'000'000;
  if (size <= small_network) return 70'000'000 + 15'000 * size;
  return std::min<std::uint64_t>(120'000'000 + 25'000 * size, 205'000'000);
}

// Work limits of the searches that run one after another, by knob `effort`. The greatest effort runs the
// normal search and then a longer one. The two are independent, so a greater effort is never slower, and
// starting the second from the first one's plan misses plans of exported VGG-16 at ratio 4.
std::vector<std::uint64_t> work_of_searches(const problem& p, const search_options& by) {
  const std::uint64_t normal = normal_work(p, by);
  const auto effort = p.knobs.find("effort");
  if (effort == p.knobs.end() || effort->second == 1) return {normal};
  if (effort->second == 0) return {normal / 8};
  return {normal, 4 * normal};
}

// Index of the first split that is coarser than another one; all later ones are, too.
std::size_t first_coarser_split(std::span<const batch_split> splits) {
  return static_cast<std::size_t>(
      std::ranges::count_if(splits, [](const batch_split& x) { return !x.finer_split.has_value(); }));
}

class best_search {
 public:
  best_search(const problem& p, const placer& place, const search_options& by, std::uint64_t work)
      : p_(p),
        place_(place),
        options_(by),
        work_(work),
        same_bits_(p.knobs.at("bits") == 1),
        footprint_(footprint_of(p.network, p.operator_costs).total),
        is_small_(p.network.ops.size() <= small_network),
        is_tiny_(is_tiny(p)),
        rungs_(ladder_of(footprint_, is_tiny_)),
        splits_(splits_of(
            p, {same_bits_, by.also_without_swaps, is_tiny_, is_tiny_, !is_tiny_ && !by.also_without_swaps},
            micro_batch_error_)),
        coarser_begin_(first_coarser_split(splits_)),
        best_time_at_rung_(rungs_.size(), any_time),
        ladder_work_left_(work / 6) {
    for (const op_cost& c : p.operator_costs) compute_time_ += c.time;
  }

  placed_plan run() {
    if (is_tiny_) search_rungs();
    if (is_small_ && !is_tiny_ && p_.budget >= smallest_laddered_budget()) {
      for (std::size_t s = 0; s < coarser_begin_; ++s) {
        if (!splits_[s].depends_on_budget) solve_ladder_for(s);
      }
      place_candidates_by_time();
    }
    if (!is_tiny_ || !best_ || !is_rung(p_.budget)) {
      search_for_budget();
      improve_rival();
    }
    if (!best_) {
      throw infeasible(options_.name + " finds no plan within " + to_text(p_.budget) + " of the " +
                       to_text(footprint_) + " that everything takes" +
                       (min_memory_ > p_.budget
                            ? "; no way to cut it that was tried needs less than " + to_text(min_memory_)
                            : "") +
                       (options_.also_without_swaps ? "; managed memory takes whole blocks" : "") +
                       micro_batch_error_);
    }
    return std::move(*best_);
  }

 private:
  // Unless operators are few, the ladder's work ends before it finds fast plans for rungs further down.
  byte_count smallest_laddered_budget() const {
    return p_.network.ops.size() <= few_operators ? rungs_.back().budget : footprint_ / 5 * 2;
  }

  struct candidate {
    std::size_t split = 0;
    byte_count budget = 0;  // budget of the rung whose search found it
    solution decided;
  };
  static nanoseconds time_of(const candidate& c) { return c.decided.score.forecast.time; }

  void accept_if_faster(std::optional<placed_plan> found) {
    if (!found || found->device_bytes > p_.budget || found->time >= best_time()) return;
    best_ = std::move(found);
    report_best_time(best_->time);
  }
  nanoseconds best_time() const { return best_ ? best_->time : any_time; }
  bool is_near_optimal() const {
    return best_ && best_->time <= compute_time_ + compute_time_ * near_optimal_permille / 1000;
  }

  // Solves the ladder for one split. Later splits get the work that this one leaves.
  void solve_ladder_for(std::size_t split) {
    search_space& of = spaces_.of(split);
    const std::uint64_t before = of.work(),
                        share = ladder_work_left_ / std::min<std::size_t>(coarser_begin_ - split, 3);
    std::vector<std::optional<solution>> found = solve_ladder(of, rungs_, best_time_at_rung_, {40, share});
    ladder_work_left_ -= std::min(ladder_work_left_, of.work() - before);
    for (std::size_t j = 0; j < found.size(); ++j) {
      if (!found[j]) continue;
      best_time_at_rung_[j] = std::min(best_time_at_rung_[j], found[j]->score.forecast.time);
      if (rungs_[j].budget <= p_.budget)
        candidates_.push_back({split, rungs_[j].budget, std::move(*found[j])});
    }
  }

  struct split_outcome {
    std::size_t split = 0;
    nanoseconds time = any_time;
    byte_count live_limit = 0;
    bool is_cut_off = false, is_promising = true;  // as in repair_result
  };
  // Returns the time plus `time / divisor`.
  static nanoseconds add_share(nanoseconds time, std::int64_t divisor) {
    return time == any_time ? time : time + time / divisor;
  }
  bool is_within_tenth() const { return best_ && best_->time <= compute_time_ + compute_time_ / 10; }

  bool is_rung(byte_count budget) const {
    return std::ranges::find(rungs_, budget, &rung::budget) != rungs_.end();
  }

  void search_rungs() {
    const auto rivals = [&](std::span<const byte_count> budgets, nanoseconds time_to_beat) {
      return best_rival_of_budgets(p_, place_, options_.rivals, same_bits_, budgets, time_to_beat);
    };
    accept_if_faster(plan_small_network(p_, place_, splits_, rungs_, rivals, work_));
  }

  split_outcome search_split(std::size_t split_index, const effort_limits& most, byte_count live_limit,
                             nanoseconds time_to_beat) {
    search_space& of = spaces_.of(split_index);
    min_memory_ = std::min(min_memory_, of.min_memory());
    if (of.min_memory() > p_.budget) return {split_index};
    repair_result found = decide_and_place(of, place_, {p_.budget, live_limit, time_to_beat}, most);
    if (!found.best) return {split_index, any_time, live_limit, found.is_cut_off, found.is_promising};
    const split_outcome seen{split_index, found.best->placed.time, found.live_limit};
    accept_if_faster(std::move(found.best->placed));
    return seen;
  }

  // Searches for the exact budget: every split with little effort, then the fastest three with more. The
  // second and third are skipped if they are slower than the best plan by half or, if that is fast, by a
  // fortieth, since more effort gains less than that (LSTM, three exported networks). If fewer than three
  // splits have a plan, the remaining work goes to promising ones that ran out of work with little effort
  // (regions of exported VGG-16 at ratio 4).
  void search_for_budget() {
    std::vector<split_outcome> results;
    std::vector<std::size_t> cut_off, promising;
    nanoseconds fastest = any_time;  // among `results` only: plans of the ladder had more effort
    effort_limits quick =
        quick_effort(work_ / std::max<std::size_t>((is_small_ ? 4 : 2) * coarser_begin_, 8));
    if (!is_tiny_ && p_.network.ops.size() <= few_operators) quick.max_tries_per_gap_class *= 2;
    // The first split has no time to beat, so that its plan is found even if a plan of the ladder is faster.
    for (std::size_t split = 0; split < coarser_begin_ && !is_near_optimal(); ++split) {
      const split_outcome seen =
          search_split(split, quick, p_.budget,
                       std::min(add_share(fastest, 20), split == 0 ? any_time : add_share(best_time(), 4)));
      if (seen.is_cut_off) cut_off.push_back(split);
      if (seen.is_cut_off && seen.is_promising) promising.push_back(split);
      if (seen.time == any_time) continue;
      results.push_back(seen);
      fastest = std::min(fastest, seen.time);
    }
    // A short time to beat saves rivals much work, so they are asked after the search with more effort. If
    // there is no plan yet or a slow one, a rival's time saves that search more, so they are asked before.
    if (best_time() > 2 * compute_time_) ask_rivals();
    if (results.empty())
      results.push_back({candidates_.empty() ? 0 : candidates_.front().split, any_time, p_.budget});
    std::ranges::stable_sort(results, {}, &split_outcome::time);
    constexpr std::size_t max_results = 3;
    for (std::size_t i = 0; i < std::min(results.size(), max_results) && !is_near_optimal(); ++i) {
      if (i > 0 && results[i].time > add_share(best_time(), 2)) continue;
      if (i > 0 && is_within_tenth() && results[i].time > add_share(best_time(), 40)) continue;
      search_split(results[i].split, full_effort(i == 0 ? work_ / 2 : work_ / 4), results[i].live_limit,
                   best_time());
    }
    ask_rivals();
    search_coarser_splits(cut_off);
    promising.resize(std::min(promising.size(), 2 * (max_results - std::min(results.size(), max_results))));
    for (const std::size_t split : promising) {
      if (!is_near_optimal()) search_split(split, full_effort(work_ / 8), p_.budget, best_time());
    }
  }

  // Asks the rivals once. Asks none if the best plan is near-optimal.
  void ask_rivals() {
    if (asked_rivals_ || is_near_optimal()) return;
    asked_rivals_ = true;
    fastest_rival_ = best_rival(p_, place_, options_.rivals, same_bits_, best_time());
    if (fastest_rival_) accept_if_faster(fastest_rival_->placed);
  }

  // A smaller budget hardly ever makes the rival's plan faster by more than a tenth.
  void improve_rival() {
    if (!fastest_rival_ || fastest_rival_->placed.time > add_share(best_time(), 10)) return;
    accept_if_faster(plan_for_smaller_budgets(p_, place_, fastest_rival_->made_by, best_time()));
  }

  // Where the best plan is slow, searches the regions of splits that were cut off in half as many parts.
  void search_coarser_splits(const std::vector<std::size_t>& cut_off) {
    for (std::size_t split = coarser_begin_; split < splits_.size() && !is_within_tenth(); ++split) {
      if (std::ranges::find(cut_off, *splits_[split].finer_split) != cut_off.end())
        search_split(split, full_effort(work_ / 8), p_.budget, best_time());
    }
  }

  // Places solutions of the ladder, the fastest first, until no other can be faster or a quarter of the work
  // is spent. If none fits by then, places those for at most 90 % of the budget, which hardly need repair.
  void place_candidates_by_time() {
    std::ranges::stable_sort(candidates_, {}, time_of);
    const repair_limits most{3, {4, work_ / 64}};
    std::uint64_t left = work_ / 4;
    for (candidate& c : candidates_) {
      if (time_of(c) >= best_time() || (left == 0 && best_)) return;
      if (left == 0 && c.budget > p_.budget / 10 * 9) continue;
      search_space& of = spaces_.of(c.split);
      const std::uint64_t before = of.work();
      accept_if_faster(
          place_or_repair(of, place_, std::move(c.decided), c.budget, p_.budget, best_time(), most));
      left -= std::min(left, of.work() - before + work_of_placing(of));
    }
  }

  const problem& p_;
  const placer& place_;
  const search_options& options_;
  std::uint64_t work_;  // limit of search_space::work
  bool same_bits_;
  std::string micro_batch_error_;
  byte_count footprint_ = 0;
  byte_count min_memory_ = std::numeric_limits<byte_count>::max();  // minimum over the splits searched
  bool is_small_ = false, is_tiny_ = false;
  std::vector<rung> rungs_;
  std::vector<batch_split> splits_;
  std::size_t coarser_begin_ = 0;               // the splits from this index on are coarser ones
  std::vector<nanoseconds> best_time_at_rung_;  // per rung: best forecast of all splits so far
  std::uint64_t ladder_work_left_;              // work left for the ladder
  nanoseconds compute_time_ = 0;                // sum over all operators
  split_spaces spaces_{p_, splits_};
  std::vector<candidate> candidates_;
  bool asked_rivals_ = false;
  std::optional<rival_plan> fastest_rival_;
  std::optional<placed_plan> best_;
};

// Places the plan's data in the device's arena and in pinned host memory.
std::optional<placed_plan> place_explicitly(const problem& p, memory_plan plan, byte_count budget) {
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  const execution_plan steps = lower(unlimited, plan, packers::searched);
  placed_plan placed{std::move(plan), steps.device_arena_bytes, 0};
  if (placed.device_bytes <= budget) placed.time = time_with_copy_price(p, steps, 1);
  return placed;
}

}  // namespace

memory_plan plan_best(const problem& p, const placer& place, const search_options& by) {
  std::optional<placed_plan> best;
  const std::vector<std::uint64_t> works = work_of_searches(p, by);
  for (const std::uint64_t work : works) {
    try {
      placed_plan found = best_search(p, place, by, work).run();
      if (!best || found.time < best->time) best = std::move(found);
    } catch (const infeasible&) {
      if (work == works.back() && !best) throw;
    }
  }
  return std::move(best->plan);
}

memory_plan plan_best(const problem& of) {
  if (footprint_of(of.network, of.operator_costs).total <= of.budget) return plan_resident(of);
  const auto make = [](const problem& p) {
    const auto decided = [&](memory_plan plan, byte_count budget) {
      return place_explicitly(p, std::move(plan), budget);
    };
    const auto find_crowded = [&](const memory_plan& plan, byte_count budget) {
      return find_crowded_ranges(p, plan, budget);
    };
    return plan_best(p, {decided, decided, find_crowded}, {"best", false, planners()});
  };
  return plan_by_few_measurements(
      of, [&](const problem& p) { return plan_independent_of_numbering(p, make); },
      [](const problem& p, memory_plan plan) { return place_explicitly(p, std::move(plan), p.budget); });
}

}  // namespace um
