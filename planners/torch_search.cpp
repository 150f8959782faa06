#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <queue>
#include <random>
#include <thread>

#include "planners/torch_checkpoints.hpp"
#include "planners/torch_moves.hpp"
#include "planners/torch_target.hpp"

namespace um {
namespace {

// Maximum slowdown of a copy beside kernels that read and write memory.
constexpr double copy_time_factor = 1.25;

constexpr double min_move_ns = 1000;  // minimum time that a move is assumed to add

constexpr unsigned search_count =
    8;  // run in parallel on the available cores; the plan depends on their number, not on the cores'

// Calls work(index) for each search, in parallel.
void run_searches(const auto& work) {
  std::atomic<unsigned> next = 0;
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, search_count);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < cores; ++i) {
    threads.emplace_back([&] {
      for (unsigned index = next++; index < search_count; index = next++) work(index);
    });
  }
}

// The choice that saves `nodes` alone.
std::vector<torch_fate> fates_saving(const torch_step& step, const std::vector<torch_id>& nodes) {
  std::vector<torch_fate> fates(step.nodes.size());
  for (const torch_id v : nodes) fates[v] = torch_fate::saved;
  return fates;
}

// Those of `among` that kernels of libraries compute.
std::vector<torch_id> library_results(const torch_step& step, const std::vector<torch_id>& among) {
  std::vector<torch_id> found;
  for (const torch_id v : among) {
    const torch_node& node = step.nodes[v];
    const torch_node& producer = node.kind == torch_kind::item ? step.nodes[node.inputs[0]] : node;
    if (producer.kind == torch_kind::kernel) found.push_back(v);
  }
  return found;
}

// Local search over choices of fates: first moves that lower the peak for the least time, then moves that
// save time within the budget.
class torch_search {
 public:
  // `index`: number of this search, below `search_count`.
  torch_search(const torch_step& step, std::int64_t budget, std::int64_t work, unsigned index);
  struct point {
    std::vector<torch_fate> fates;
    double excess = 0, ns = 0;  // bytes above the budget, nanoseconds
    bool operator<(const point& other) const {
      return excess != other.excess ? excess < other.excess : ns < other.ns;
    }
  };
  // Evaluates this search's share of the sets, each saved with all small tensors.
  std::vector<point> evaluate_sets(const std::vector<std::vector<torch_id>>& sets);
  // Lowers the peak from PyTorch's own choice and from the points of checkpointing by parts.
  void descend(const std::vector<torch_id>& pytorch_choice, const std::vector<point>& partwise);
  // Saves time from the points that descend() has reached, then from ones near the best, for about `work`.
  void reduce_times_from_descents(std::int64_t work);
  torch_plan best_plan();
  std::int64_t evaluations() const { return evaluations_; }
  const point& best() const { return best_; }

 private:
  bool is_work_spent() const { return model_.work() >= max_work_; }
  point evaluate(std::vector<torch_fate> fates);
  // Evaluates the choice that saves only those candidates which the backward graph reads.
  point evaluate_used(std::vector<torch_fate> fates);
  point evaluate_move(const torch_move& m);
  point evaluate_with_small(const std::vector<torch_id>& nodes);
  std::vector<point> starting_points(const std::vector<torch_id>& pytorch_choice,
                                     const std::vector<point>& partwise);
  double bytes_freed_per_ns(const torch_move& m) const;
  void lower_peak(std::size_t first_move, std::size_t end_move);
  void reduce_time(std::int64_t max_work);
  void set_budget(std::int64_t budget);
  void update_best() {
    if (current_ < best_) best_ = current_;
  }
  std::vector<point> descend_from(const std::vector<point>& from);
  void perturb();
  void maximize_copy_safety();

  const torch_step& step_;
  std::int64_t budget_, current_budget_;
  std::int64_t max_work_;  // limit in units of torch_model::work()
  torch_model model_;
  torch_moves moves_;
  point current_, best_;
  std::vector<point> descents_;    // ends of descend() whose time is not yet reduced, the best last
  bool is_reduced_ = true;         // no move makes current_ better
  bool has_applied_move_ = false;  // a move was applied since reduce_time() was last at the list's begin
  std::size_t next_move_ = 0;      // index of the move that reduce_time() tries next
  unsigned search_index_;
  bool ranks_by_promise_;  // true in every second search
  std::mt19937 random_;
  std::int64_t evaluations_ = 0;
};

torch_search::torch_search(const torch_step& step, std::int64_t budget, std::int64_t work, unsigned index)
    : step_(step),
      budget_(budget),
      current_budget_(budget),
      max_work_(work),
      model_(step, budget),
      moves_(step),
      search_index_(index),
      ranks_by_promise_(index % 2 == 1),
      random_(index + 1) {
  model_.set_copy_safety_factor(copy_time_factor);
  best_.excess = best_.ns = std::numeric_limits<double>::infinity();
}

torch_search::point torch_search::evaluate(std::vector<torch_fate> fates) {
  ++evaluations_;
  const torch_estimate e = model_.evaluate(fates);
  point p{std::move(fates), 0, static_cast<double>(e.ns)};
  // The mean excess guides the search if several kernels share the peak.
  if (e.peak > current_budget_) p.excess = static_cast<double>(e.peak - current_budget_) + 0.3 * e.excess;
  return p;
}

torch_search::point torch_search::evaluate_used(std::vector<torch_fate> fates) {
  std::vector<torch_fate> used(fates.size());
  for (const torch_id v : moves_.small_tensors) used[v] = torch_fate::saved;
  for (const torch_id v : model_.used_saved(fates))
    used[v] = fates[v] == torch_fate::recomputed ? torch_fate::saved : fates[v];
  return evaluate(std::move(used));
}

torch_search::point torch_search::evaluate_move(const torch_move& m) {
  std::vector<torch_fate> fates = current_.fates;
  bool changes = false;
  const auto set = [&](const std::vector<torch_id>& nodes, torch_fate fate) {
    for (const torch_id v : nodes) {
      changes |= fates[v] != fate;
      fates[v] = fate;
    }
  };
  set(m.recompute, torch_fate::recomputed);
  set(m.save, torch_fate::saved);
  set(m.offload, torch_fate::offloaded);
  return changes ? evaluate(std::move(fates)) : current_;
}

// Upper bound on the bytes that a move frees per nanosecond that it adds; not positive if it frees nothing.
double torch_search::bytes_freed_per_ns(const torch_move& m) const {
  double freed = 0, ns = 0;
  const auto sum = [&](const std::vector<torch_id>& nodes, bool saved, double sign) {
    for (const torch_id v : nodes) {
      if ((current_.fates[v] == torch_fate::saved) != saved) continue;
      freed += sign * static_cast<double>(step_.nodes[v].bytes);
      ns += sign * static_cast<double>(step_.nodes[v].ns);
    }
  };
  sum(m.recompute, true, 1);
  sum(m.offload, true, 1);
  sum(m.save, false, -1);
  return freed / std::max(min_move_ns, ns);
}

// Repeatedly applies the move that lowers the peak most per time added. Scores are kept when a move is
// applied and updated from the top of the queue. If ranks_by_promise_, the queue starts with upper bounds, so
// that few moves are evaluated before the first is applied: for large steps, where not all can be.
void torch_search::lower_peak(std::size_t first_move, std::size_t end_move) {
  struct scored_move {
    double score;
    std::size_t move;
    std::int64_t queued_after;  // number of moves applied when it was put back; -1: not scored yet
    bool operator<(const scored_move& other) const { return score < other.score; }
  };
  std::priority_queue<scored_move> open;
  for (std::size_t m = first_move; m < end_move; ++m) {
    const double promise =
        ranks_by_promise_ ? bytes_freed_per_ns(moves_.moves[m]) : std::numeric_limits<double>::infinity();
    if (promise > 0) open.push({promise, m, -1});
  }
  for (std::int64_t applied_moves = 0; current_.excess > 0 && !open.empty() && !is_work_spent();) {
    const scored_move top = open.top();
    open.pop();
    if (top.score <= 0) return;
    const point next = evaluate_move(moves_.moves[top.move]);
    const double score = (current_.excess - next.excess) / std::max(min_move_ns, next.ns - current_.ns);
    if (next.excess < current_.excess && (open.empty() || score >= open.top().score)) {
      current_ = next;
      ++applied_moves;
      // Moves that did not help before may help now.
      if (open.empty() || open.top().score <= 0) return;
      open.push({score, top.move, applied_moves});
    } else if (top.queued_after != applied_moves) {
      open.push({score, top.move, applied_moves});
    }
  }
}

void torch_search::set_budget(std::int64_t budget) {
  current_budget_ = budget;
  model_.set_budget(budget);
}

// Applies each move that is better, in the order of the list, again and again until none is. Stops once
// `max_work` is spent, and goes on from there when it is called again.
void torch_search::reduce_time(std::int64_t max_work) {
  for (; !is_reduced_ && model_.work() < max_work; ++next_move_) {
    if (next_move_ == moves_.moves.size()) {
      is_reduced_ = !has_applied_move_;
      has_applied_move_ = false;
      next_move_ = 0;
      if (is_reduced_) break;
    }
    point next = evaluate_move(moves_.moves[next_move_]);
    if (!(next < current_)) continue;
    current_ = std::move(next);
    has_applied_move_ = true;
  }
  update_best();
}

void torch_search::perturb() {
  std::vector<torch_fate> fates = best_.fates;
  const std::size_t kinds = step_.link_bytes_per_ns > 0 ? 3 : 2;
  for (int i = 0; i < 3; ++i) {
    const auto& family = moves_.families[random_() % moves_.families.size()];
    const auto fate = static_cast<torch_fate>(random_() % kinds);
    const std::size_t begin = random_() % family.size(),
                      end = std::min(family.size(), begin + 1 + random_() % 8);
    for (std::size_t j = begin; j < end; ++j) fates[family[j]] = fate;
  }
  current_ = evaluate_used(std::move(fates));
}

// Evaluates the best point again with the largest safety factor for copies that costs neither memory nor
// time.
void torch_search::maximize_copy_safety() {
  for (const double times : {8.0, 4.0, 2.0, 1.5, copy_time_factor}) {
    model_.set_copy_safety_factor(times);
    const point same = evaluate(best_.fates);
    if (same.excess <= best_.excess && same.ns <= best_.ns) return;
  }
}

torch_search::point torch_search::evaluate_with_small(const std::vector<torch_id>& nodes) {
  std::vector<torch_fate> fates = fates_saving(step_, nodes);
  for (const torch_id v : moves_.small_tensors) fates[v] = torch_fate::saved;
  return evaluate_used(std::move(fates));
}

std::vector<torch_search::point> torch_search::evaluate_sets(const std::vector<std::vector<torch_id>>& sets) {
  std::vector<point> found;
  for (std::size_t i = search_index_; i < sets.size() && !is_work_spent(); i += search_count)
    found.push_back(evaluate_with_small(sets[i]));
  return found;
}

// Choices to start from: everything saved, PyTorch's own choice, the results of library calls, and
// checkpointing by parts.
std::vector<torch_search::point> torch_search::starting_points(const std::vector<torch_id>& pytorch_choice,
                                                               const std::vector<point>& partwise) {
  std::vector<point> found{evaluate_with_small(moves_.candidates), evaluate_with_small(pytorch_choice),
                           evaluate_with_small(library_results(step_, moves_.candidates))};
  // If even checkpointing by parts exceeds the budget, the other starting points are still farther from it
  // and come last.
  const bool is_tight = !partwise.empty() && partwise[0].excess > 0;
  found.insert(is_tight ? found.begin() : found.end(), partwise.begin(), partwise.end());
  return found;
}

// Lowers the peak from this search's share of the starting points. Returns the points reached. If none keeps
// the budget, descents to smaller budgets follow, which may get lower.
std::vector<torch_search::point> torch_search::descend_from(const std::vector<point>& from) {
  const std::vector<double> budget_shares{1.0, 0.85, 0.7};
  std::vector<point> ends;
  constexpr std::size_t alike =
      search_count / 2;  // searches of both values of ranks_by_promise_ use the same starting points
  for (std::size_t i = search_index_ / 2; i < budget_shares.size() * from.size() && !is_work_spent();
       i += alike) {
    const std::size_t share_index = i / from.size();
    if (share_index > 0 && best_.excess <= 0) break;
    set_budget(static_cast<std::int64_t>(budget_shares[share_index] * static_cast<double>(budget_)));
    current_ = evaluate(from[i % from.size()].fates);
    lower_peak(0, moves_.family_move_count);
    lower_peak(moves_.family_move_count, moves_.moves.size());
    set_budget(budget_);
    current_ = evaluate(current_.fates);
    update_best();
    ends.push_back(current_);
  }
  return ends;
}

void torch_search::descend(const std::vector<torch_id>& pytorch_choice, const std::vector<point>& partwise) {
  current_ = evaluate(fates_saving(step_, pytorch_choice));  // without saving all small tensors
  update_best();
  descents_.push_back(current_);
  for (point& end : descend_from(starting_points(pytorch_choice, partwise)))
    descents_.push_back(std::move(end));
  std::sort(descents_.rbegin(), descents_.rend());
}

void torch_search::reduce_times_from_descents(std::int64_t work) {
  const std::int64_t end = std::min(max_work_, model_.work() + work);
  while (model_.work() < end) {
    if (is_reduced_ && !descents_.empty()) {
      current_ = std::move(descents_.back());
      descents_.pop_back();
    } else if (is_reduced_) {
      perturb();
      lower_peak(0, moves_.family_move_count);
    }
    is_reduced_ = false;
    reduce_time(end);
  }
}

torch_plan torch_search::best_plan() {
  maximize_copy_safety();
  return model_.plan();
}

}  // namespace

torch_plan plan_torch(const torch_step& step, std::int64_t budget,
                      const std::vector<torch_id>& pytorch_choice, std::int64_t work) {
  std::vector<std::unique_ptr<torch_search>> all;
  for (unsigned index = 0; index < search_count; ++index)
    all.push_back(std::make_unique<torch_search>(step, budget, work, index));
  const auto sets = torch_checkpoints(torch_dataflow(step));
  std::vector<std::vector<torch_search::point>> found_by_search(search_count);
  run_searches([&](unsigned index) { found_by_search[index] = all[index]->evaluate_sets(sets); });
  constexpr std::size_t max_partwise = 3;
  std::vector<torch_search::point> partwise;
  for (const auto& found : found_by_search) partwise.insert(partwise.end(), found.begin(), found.end());
  std::stable_sort(partwise.begin(), partwise.end());
  partwise.resize(std::min(partwise.size(), max_partwise));
  run_searches([&](unsigned index) { all[index]->descend(pytorch_choice, partwise); });
  const auto best = [&]() -> torch_search& {
    return **std::ranges::min_element(all,
                                      [](const auto& a, const auto& b) { return a->best() < b->best(); });
  };
  // Rounds, until one hardly improves a plan that keeps the budget.
  constexpr double min_gain = 0.001;
  const std::int64_t work_of_round = std::max<std::int64_t>(work / 15, 1'000'000);
  bool is_improving = true;
  for (std::int64_t begun = 0; begun < work && is_improving; begun += work_of_round) {
    const torch_search::point before = best().best();
    run_searches([&](unsigned index) { all[index]->reduce_times_from_descents(work_of_round); });
    const torch_search::point& after = best().best();
    is_improving = after.excess > 0 || before.excess > 0 || after.ns < (1 - min_gain) * before.ns;
  }
  torch_plan plan = best().best_plan();
  plan.evaluations = 0;
  for (const auto& each : all) plan.evaluations += each->evaluations();
  return plan;
}

}  // namespace um
