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

// The longest time of a copy beside kernels that read and write memory, over its time alone.
constexpr double copy_time = 1.25;

constexpr double least_ns = 1000;  // that a move is taken to cost

constexpr unsigned searches = 8;  // beside one another, on however many cores: their number decides the plan

// work(part) for each search.
void side_by_side(const auto& work) {
  std::atomic<unsigned> next = 0;
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, searches);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < cores; ++i) {
    threads.emplace_back([&] {
      for (unsigned part = next++; part < searches; part = next++) work(part);
    });
  }
}

// From one choice to the next by moves: first those that lower the peak for the least time, then those that
// save time within the budget.
class torch_search {
 public:
  // One of `searches`.
  torch_search(const torch_step& step, std::int64_t budget, std::int64_t work, unsigned part);
  struct point {
    std::vector<torch_fate> fates;
    double over = 0, ns = 0;  // bytes above the budget, nanoseconds
    bool operator<(const point& other) const {
      return over != other.over ? over < other.over : ns < other.ns;
    }
  };
  // This part's share of the sets, saved with all small tensors.
  std::vector<point> evaluated(const std::vector<std::vector<torch_id>>& sets);
  // Searches from PyTorch's own choice `begin` and from `by_parts`. The plan found.
  torch_plan find(const std::vector<torch_id>& begin, const std::vector<point>& by_parts);
  bool is_better_than(const torch_search& other) const { return best_ < other.best_; }

 private:
  bool late() const { return model_.work() >= work_; }
  point at(std::vector<torch_fate> fates);
  // What the backward graph reads of the candidates, with their fates.
  point trimmed(std::vector<torch_fate> fates);
  point after(const torch_move& m);
  std::vector<torch_fate> saving(const std::vector<torch_id>& nodes) const;
  std::vector<torch_id> results_of_kernels() const;
  point with_small(const std::vector<torch_id>& nodes);
  std::vector<point> starting_points(const std::vector<torch_id>& begin, const std::vector<point>& by_parts);
  double bytes_freed_per_ns(const torch_move& m) const;
  void lower_peak(std::size_t first, std::size_t last);
  void reduce_time();
  void aim_at(std::int64_t budget);
  void keep() {
    if (now_ < best_) best_ = now_;
  }
  std::vector<point> descents(const std::vector<point>& from);
  void perturb();
  void leave_copies_time();

  const torch_step& step_;
  std::int64_t budget_, aim_;
  std::int64_t work_;  // at most: nodes of evaluated choices
  torch_model model_;
  torch_moves moves_;
  point now_, best_;
  unsigned part_;
  bool by_promise_;  // every second part
  std::mt19937 random_;
  std::int64_t evaluations_ = 0;
};

torch_search::torch_search(const torch_step& step, std::int64_t budget, std::int64_t work, unsigned part)
    : step_(step),
      budget_(budget),
      aim_(budget),
      work_(work),
      model_(step, budget),
      moves_(step),
      part_(part),
      by_promise_(part % 2 == 1),
      random_(part + 1) {
  model_.leave_time(copy_time);
  best_.over = best_.ns = std::numeric_limits<double>::infinity();
}

torch_search::point torch_search::at(std::vector<torch_fate> fates) {
  ++evaluations_;
  const torch_estimate e = model_.evaluate(fates);
  point p{std::move(fates), 0, static_cast<double>(e.ns)};
  // The mean shows the way where several moments share the peak.
  if (e.peak > aim_) p.over = static_cast<double>(e.peak - aim_) + 0.3 * e.excess;
  return p;
}

torch_search::point torch_search::trimmed(std::vector<torch_fate> fates) {
  std::vector<torch_fate> used(fates.size());
  for (const torch_id v : moves_.small) used[v] = torch_fate::saved;
  for (const torch_id v : model_.used_of(fates))
    used[v] = fates[v] == torch_fate::again ? torch_fate::saved : fates[v];
  return at(std::move(used));
}

torch_search::point torch_search::after(const torch_move& m) {
  std::vector<torch_fate> fates = now_.fates;
  bool changes = false;
  const auto set = [&](const std::vector<torch_id>& nodes, torch_fate fate) {
    for (const torch_id v : nodes) {
      changes |= fates[v] != fate;
      fates[v] = fate;
    }
  };
  set(m.off, torch_fate::again);
  set(m.on, torch_fate::saved);
  set(m.out, torch_fate::offloaded);
  return changes ? at(std::move(fates)) : now_;
}

// What a move frees at most for each nanosecond that it costs at least. Not positive where it frees nothing.
double torch_search::bytes_freed_per_ns(const torch_move& m) const {
  double freed = 0, ns = 0;
  const auto sum = [&](const std::vector<torch_id>& nodes, bool saved, double sign) {
    for (const torch_id v : nodes) {
      if ((now_.fates[v] == torch_fate::saved) != saved) continue;
      freed += sign * static_cast<double>(step_.nodes[v].bytes);
      ns += sign * static_cast<double>(step_.nodes[v].ns);
    }
  };
  sum(m.off, true, 1);
  sum(m.out, true, 1);
  sum(m.on, false, -1);
  return freed / std::max(least_ns, ns);
}

// Takes the move that lowers the peak most for the time that it costs, again and again. Scores are kept from
// one round to the next and looked at again from the top. By promise, few moves are looked at before the
// first is taken: that is for large steps, where not all can be.
void torch_search::lower_peak(std::size_t first, std::size_t last) {
  struct scored {
    double score;
    std::size_t move, round;
    bool operator<(const scored& other) const { return score < other.score; }
  };
  std::priority_queue<scored> open;
  for (std::size_t m = first; m < last; ++m) {
    const double promise =
        by_promise_ ? bytes_freed_per_ns(moves_.all[m]) : std::numeric_limits<double>::infinity();
    if (promise > 0) open.push({promise, m, 0});
  }
  for (std::size_t round = 1; now_.over > 0 && !open.empty() && !late();) {
    const scored top = open.top();
    open.pop();
    if (top.score <= 0) return;
    const point next = after(moves_.all[top.move]);
    const double score = (now_.over - next.over) / std::max(least_ns, next.ns - now_.ns);
    if (next.over < now_.over && (open.empty() || score >= open.top().score)) {
      now_ = next;
      ++round;
      // Moves that did not help may help now.
      if (open.empty() || open.top().score <= 0) return;
      open.push({score, top.move, round});
    } else if (top.round != round) {
      open.push({score, top.move, round});
    }
  }
}

void torch_search::aim_at(std::int64_t budget) {
  aim_ = budget;
  model_.aim_at(budget);
}

// Accepts what is better as it comes, families first.
void torch_search::reduce_time() {
  for (bool found = true; found && !late();) {
    found = false;
    for (const torch_move& m : moves_.all) {
      if (late()) return;
      point next = after(m);
      if (!(next < now_)) continue;
      now_ = std::move(next);
      found = true;
    }
  }
}

void torch_search::perturb() {
  std::vector<torch_fate> fates = best_.fates;
  const std::size_t kinds = step_.link_bytes_per_ns > 0 ? 3 : 2;
  for (int i = 0; i < 3; ++i) {
    const auto& family = moves_.families[random_() % moves_.families.size()];
    const auto fate = static_cast<torch_fate>(random_() % kinds);
    const std::size_t from = random_() % family.size(),
                      to = std::min(family.size(), from + 1 + random_() % 8);
    for (std::size_t j = from; j < to; ++j) fates[family[j]] = fate;
  }
  now_ = trimmed(std::move(fates));
}

// Evaluates the best point with as much time for its copies as costs neither memory nor time.
void torch_search::leave_copies_time() {
  for (const double times : {8.0, 4.0, 2.0, 1.5, copy_time}) {
    model_.leave_time(times);
    const point same = at(best_.fates);
    if (same.over <= best_.over && same.ns <= best_.ns) return;
  }
}

std::vector<torch_fate> torch_search::saving(const std::vector<torch_id>& nodes) const {
  std::vector<torch_fate> fates(step_.nodes.size());
  for (const torch_id v : nodes) fates[v] = torch_fate::saved;
  return fates;
}

std::vector<torch_id> torch_search::results_of_kernels() const {
  std::vector<torch_id> found;
  for (const torch_id v : moves_.candidates) {
    const torch_node& node = step_.nodes[v];
    const torch_node& maker = node.kind == torch_kind::item ? step_.nodes[node.inputs[0]] : node;
    if (maker.kind == torch_kind::kernel) found.push_back(v);
  }
  return found;
}

torch_search::point torch_search::with_small(const std::vector<torch_id>& nodes) {
  std::vector<torch_fate> fates = saving(nodes);
  for (const torch_id v : moves_.small) fates[v] = torch_fate::saved;
  return trimmed(std::move(fates));
}

std::vector<torch_search::point> torch_search::evaluated(const std::vector<std::vector<torch_id>>& sets) {
  std::vector<point> found;
  for (std::size_t i = part_; i < sets.size() && !late(); i += searches) found.push_back(with_small(sets[i]));
  return found;
}

// Choices to search from: all, PyTorch's own, what no kernel is fused for, and those that compute again part
// by part.
std::vector<torch_search::point> torch_search::starting_points(const std::vector<torch_id>& begin,
                                                               const std::vector<point>& by_parts) {
  std::vector<point> found{with_small(moves_.candidates), with_small(begin),
                           with_small(results_of_kernels())};
  // Where even parts are too large, the way from the others is longer still.
  const bool is_tight = !by_parts.empty() && by_parts[0].over > 0;
  found.insert(is_tight ? found.begin() : found.end(), by_parts.begin(), by_parts.end());
  return found;
}

// Where this part's ways from the starts to the budget end. A way to a smaller budget may go further than one
// that ends too early.
std::vector<torch_search::point> torch_search::descents(const std::vector<point>& from) {
  const std::vector<double> shares{1.0, 0.85, 0.7};
  std::vector<point> ends;
  constexpr std::size_t alike = searches / 2;  // those of both kinds take the same ways
  for (std::size_t i = part_ / 2; i < shares.size() * from.size() && !late(); i += alike) {
    const std::size_t share = i / from.size();
    if (share > 0 && best_.over <= 0) break;
    aim_at(static_cast<std::int64_t>(shares[share] * static_cast<double>(budget_)));
    now_ = at(from[i % from.size()].fates);
    lower_peak(0, moves_.of_families);
    lower_peak(moves_.of_families, moves_.all.size());
    aim_at(budget_);
    now_ = at(now_.fates);
    keep();
    ends.push_back(now_);
  }
  return ends;
}

torch_plan torch_search::find(const std::vector<torch_id>& begin, const std::vector<point>& by_parts) {
  now_ = at(saving(begin));  // with PyTorch's own choice of small tensors
  keep();
  std::vector<point> ends{now_};
  for (point& end : descents(starting_points(begin, by_parts))) ends.push_back(std::move(end));
  std::sort(ends.begin(), ends.end());
  for (const point& end : ends) {
    now_ = end;
    reduce_time();
    keep();
  }
  while (!late()) {
    perturb();
    lower_peak(0, moves_.of_families);
    reduce_time();
    keep();
  }
  leave_copies_time();
  torch_plan made = model_.plan();
  made.evaluations = evaluations_;
  return made;
}

}  // namespace

torch_plan plan_torch(const torch_step& step, std::int64_t budget, const std::vector<torch_id>& begin,
                      std::int64_t work) {
  std::vector<std::unique_ptr<torch_search>> all;
  for (unsigned part = 0; part < searches; ++part)
    all.push_back(std::make_unique<torch_search>(step, budget, work, part));
  const auto sets = torch_checkpoints(torch_wiring(step));
  std::vector<std::vector<torch_search::point>> shares(searches);
  side_by_side([&](unsigned part) { shares[part] = all[part]->evaluated(sets); });
  constexpr std::size_t most_by_parts = 3;
  std::vector<torch_search::point> by_parts;
  for (const auto& share : shares) by_parts.insert(by_parts.end(), share.begin(), share.end());
  std::stable_sort(by_parts.begin(), by_parts.end());
  by_parts.resize(std::min(by_parts.size(), most_by_parts));
  std::vector<torch_plan> plans(searches);
  side_by_side([&](unsigned part) { plans[part] = all[part]->find(begin, by_parts); });
  std::size_t best = 0;
  std::int64_t evaluations = 0;
  for (std::size_t part = 0; part < searches; ++part) {
    evaluations += plans[part].evaluations;
    if (all[part]->is_better_than(*all[best])) best = part;
  }
  plans[best].evaluations = evaluations;
  return plans[best];
}

}  // namespace um
