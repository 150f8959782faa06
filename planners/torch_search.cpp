#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <queue>
#include <random>

#include "planners/torch_target.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

// Nodes that are saved, and nodes that no longer are, all at once.
struct move {
  std::vector<torch_id> on, off;
};

// From one choice to the next by moves: first those that lower the peak for the least time, then those that
// save time within the budget.
class search {
 public:
  search(const torch_step& step, std::int64_t budget, double seconds);
  torch_plan find(const std::vector<torch_id>& begin);

 private:
  struct point {
    std::vector<char> saved;
    double over = 0, ns = 0;  // bytes above the budget, nanoseconds
  };

  bool late() const { return clock::now() > end_; }
  point at(std::vector<char> saved);
  // What the backward graph reads of the candidates, where `saved` may be sent.
  point trimmed(std::vector<char> saved);
  bool better(const point& a, const point& b) const {
    return a.over != b.over ? a.over < b.over : a.ns < b.ns;
  }
  point after(const move& m);
  bool is_candidate(torch_id v) const;
  std::vector<torch_id> around(const std::vector<torch_id>& nodes, bool sources) const;
  void make_moves();
  void add_moves(const std::vector<torch_id>& nodes);
  std::vector<char> results_of_kernels() const;
  void lower_peak(std::size_t first, std::size_t last);
  void save_time();
  void keep() {
    if (better(now_, best_)) best_ = now_;
  }
  void shake();

  const torch_step& step_;
  std::int64_t budget_;
  torch_model model_;
  clock::time_point end_;
  std::vector<torch_id> candidates_, small_;
  std::vector<std::pair<std::vector<torch_id>, std::vector<torch_id>>>
      beside_;  // candidates read, and readers
  std::int64_t all_bytes_ = 0;
  std::size_t wholes_ = 0;  // moves of families, which come first
  std::vector<std::vector<torch_id>> families_;
  std::vector<move> moves_;
  point now_, best_;
  std::mt19937 random_{1};
  std::int64_t evaluations_ = 0;
};

search::search(const torch_step& step, std::int64_t budget, double seconds)
    : step_(step),
      budget_(budget),
      model_(step, budget),
      end_(clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6))) {
  std::map<int, std::vector<torch_id>> families;
  beside_.resize(step.nodes.size());
  for (const torch_node& node : step.nodes) {
    if (node.forward) all_bytes_ += node.bytes;
  }
  for (torch_id v = 0; v < step.nodes.size(); ++v) {
    const torch_node& node = step.nodes[v];
    if (node.kind == torch_kind::view || node.kind == torch_kind::input) continue;
    if (node.forward && node.bytes > 0) small_.push_back(v);
    if (!is_candidate(v)) continue;
    small_.pop_back();
    candidates_.push_back(v);
    families[node.family].push_back(v);
  }
  for (auto& [id, members] : families) families_.push_back(std::move(members));
  make_moves();
  best_.over = best_.ns = std::numeric_limits<double>::infinity();
}

// Small tensors are saved wherever the backward graph needs them.
bool search::is_candidate(torch_id v) const {
  constexpr std::int64_t small = 20000;  // of all tensors' bytes
  const torch_node& node = step_.nodes[v];
  return node.forward && node.repeatable && node.bytes > all_bytes_ / small;
}

// Candidates that the nodes read, or that read them.
std::vector<torch_id> search::around(const std::vector<torch_id>& nodes, bool sources) const {
  std::vector<torch_id> found;
  for (const torch_id v : nodes) {
    const auto& next = sources ? beside_[v].first : beside_[v].second;
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

void search::add_moves(const std::vector<torch_id>& nodes) {
  moves_.push_back({{}, nodes});
  moves_.push_back({nodes, {}});
  for (const bool sources : {true, false}) {
    const auto next = around(nodes, sources);
    if (next.empty()) continue;
    moves_.push_back({next, nodes});
    moves_.push_back({nodes, next});
  }
}

// Each family as a whole, its halves, every second, third and fourth of its members, and each node; saved, no
// longer saved, or saved in place of its neighbours.
void search::make_moves() {
  for (const torch_id v : candidates_) {
    std::vector<torch_id> open = step_.nodes[v].inputs;
    while (!open.empty()) {
      const torch_id u = open.back();
      open.pop_back();
      if (is_candidate(u) && step_.nodes[u].kind != torch_kind::view) {
        beside_[v].first.push_back(u);
        beside_[u].second.push_back(v);
      } else if (step_.nodes[u].kind == torch_kind::view || step_.nodes[u].kind == torch_kind::item) {
        open.push_back(step_.nodes[u].inputs[0]);
      }
    }
  }
  for (const auto& family : families_) {
    add_moves(family);
    if (family.size() < 4) continue;
    for (std::size_t stride = 2; stride <= 4; ++stride) {
      std::vector<torch_id> part;
      for (std::size_t i = stride - 1; i < family.size(); i += stride) part.push_back(family[i]);
      add_moves(part);
    }
    const auto middle = family.begin() + static_cast<std::ptrdiff_t>(family.size() / 2);
    add_moves({family.begin(), middle});
    add_moves({middle, family.end()});
  }
  wholes_ = moves_.size();
  for (const torch_id v : candidates_) add_moves({v});
}

search::point search::at(std::vector<char> saved) {
  ++evaluations_;
  const torch_estimate e = model_.evaluate(saved);
  point p{std::move(saved), 0, static_cast<double>(e.ns)};
  // The mean shows the way where several moments share the peak.
  if (e.peak > budget_) p.over = static_cast<double>(e.peak - budget_) + 0.3 * e.excess;
  return p;
}

search::point search::trimmed(std::vector<char> saved) {
  at(saved);
  std::vector<char> used(saved.size());
  for (const torch_id v : small_) used[v] = 1;
  for (const torch_id v : model_.plan().saved) used[v] = 1;
  return at(std::move(used));
}

search::point search::after(const move& m) {
  std::vector<char> saved = now_.saved;
  bool changes = false;
  const auto set = [&](const std::vector<torch_id>& nodes, char value) {
    for (const torch_id v : nodes) {
      changes |= saved[v] != value;
      saved[v] = value;
    }
  };
  set(m.off, 0);
  set(m.on, 1);
  return changes ? at(std::move(saved)) : now_;
}

// Takes the move that lowers the peak most for the time that it costs, again and again. Scores are kept from
// one round to the next and looked at again from the top.
void search::lower_peak(std::size_t first, std::size_t last) {
  struct scored {
    double score;
    std::size_t move, round;
    bool operator<(const scored& other) const { return score < other.score; }
  };
  const double least_ns = 1000;
  std::priority_queue<scored> open;
  for (std::size_t m = first; m < last; ++m) open.push({std::numeric_limits<double>::infinity(), m, 0});
  for (std::size_t round = 1; now_.over > 0 && !open.empty() && !late();) {
    const scored top = open.top();
    open.pop();
    if (top.score <= 0) return;
    const point next = after(moves_[top.move]);
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

// Accepts what is better as it comes, families first.
void search::save_time() {
  for (bool found = true; found && !late();) {
    found = false;
    for (const move& m : moves_) {
      if (late()) return;
      point next = after(m);
      if (!better(next, now_)) continue;
      now_ = std::move(next);
      found = true;
    }
  }
}

std::vector<char> search::results_of_kernels() const {
  std::vector<char> saved(step_.nodes.size());
  for (const torch_id v : candidates_) {
    const torch_node& node = step_.nodes[v];
    const torch_node& maker = node.kind == torch_kind::item ? step_.nodes[node.inputs[0]] : node;
    saved[v] = maker.kind == torch_kind::kernel;
  }
  return saved;
}

void search::shake() {
  std::vector<char> saved = best_.saved;
  for (int i = 0; i < 3; ++i) {
    const auto& family = families_[random_() % families_.size()];
    const char value = static_cast<char>(random_() % 2);
    const std::size_t from = random_() % family.size(),
                      to = std::min(family.size(), from + 1 + random_() % 8);
    for (std::size_t j = from; j < to; ++j) saved[family[j]] = value;
  }
  now_ = trimmed(std::move(saved));
}

torch_plan search::find(const std::vector<torch_id>& begin) {
  std::vector<char> all(step_.nodes.size()), own(step_.nodes.size());
  for (const torch_id v : candidates_) all[v] = 1;
  for (const torch_id v : begin) own[v] = 1;
  std::vector<point> ends;
  for (auto start : {all, own, results_of_kernels()}) {
    for (const torch_id v : small_) start[v] = 1;
    now_ = trimmed(std::move(start));
    keep();
    lower_peak(0, wholes_);
    lower_peak(wholes_, moves_.size());
    keep();
    ends.push_back(now_);
  }
  std::ranges::sort(ends, [&](const point& a, const point& b) { return better(a, b); });
  for (const point& end : ends) {
    now_ = end;
    save_time();
    keep();
  }
  while (!late()) {
    shake();
    lower_peak(0, wholes_);
    save_time();
    keep();
  }
  model_.evaluate(best_.saved);
  torch_plan made = model_.plan();
  made.evaluations = evaluations_;
  return made;
}

}  // namespace

torch_plan plan_torch(const torch_step& step, std::int64_t budget, const std::vector<torch_id>& begin,
                      double seconds) {
  return search(step, budget, seconds).find(begin);
}

}  // namespace um
