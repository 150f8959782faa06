#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <random>

#include "planners/torch_target.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

// Weighs a peak above the budget against time.
double cost_of(const torch_estimate& e, std::int64_t budget, double scale) {
  double cost = static_cast<double>(e.ns);
  if (e.peak > budget) {
    const double over = static_cast<double>(e.peak - budget) / static_cast<double>(budget);
    cost += scale * (1 + 10 * over + 3 * e.excess / static_cast<double>(budget));
  }
  return cost;
}

class search {
 public:
  search(const torch_step& step, std::int64_t budget, double seconds)
      : step_(step),
        budget_(budget),
        model_(step, budget),
        end_(clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6))) {
    std::map<int, std::vector<int>> families;
    for (std::size_t v = 0; v < step.nodes.size(); ++v) {
      const auto& node = step.nodes[v];
      if (!node.forward || node.bytes == 0 || !node.repeatable || node.kind == torch_kind::view ||
          node.kind == torch_kind::input)
        continue;
      candidates_.push_back(static_cast<int>(v));
      families[node.family].push_back(static_cast<int>(v));
      total_ += static_cast<double>(node.bytes);
    }
    for (auto& [id, members] : families) families_.push_back(std::move(members));
    for (const auto& node : step.nodes)
      scale_ += static_cast<double>(node.ns) + static_cast<double>(node.bytes) / step.bytes_per_ns;
  }

  torch_plan find(const std::vector<int>& begin) {
    std::vector<std::vector<char>> starts;
    starts.push_back(everything_read());
    if (!begin.empty()) starts.push_back(flags(begin));
    starts.push_back(results_of_kernels());
    for (auto& start : starts) {
      current_ = start;
      cost_ = cost(current_);
      keep_best();
      over_families();
      over_single();
      keep_best();
    }
    std::mt19937 random(1);
    while (!late()) {
      current_ = best_;
      cost_ = best_cost_;
      shake(random);
      over_families();
      over_single();
      keep_best();
    }
    model_.evaluate(best_);
    torch_plan made = model_.plan();
    made.evaluations = evaluations_;
    return made;
  }

 private:
  bool late() const { return clock::now() > end_; }

  std::vector<char> flags(const std::vector<int>& nodes) const {
    std::vector<char> saved(step_.nodes.size());
    for (const int v : nodes) saved[static_cast<std::size_t>(v)] = 1;
    return saved;
  }
  // What backward nodes read is saved, nothing is computed again.
  std::vector<char> everything_read() const { return flags(candidates_); }
  std::vector<char> results_of_kernels() const {
    std::vector<char> saved(step_.nodes.size());
    for (const int v : candidates_) {
      const auto& node = step_.nodes[static_cast<std::size_t>(v)];
      const auto& maker =
          node.kind == torch_kind::item ? step_.nodes[static_cast<std::size_t>(node.inputs[0])] : node;
      saved[static_cast<std::size_t>(v)] =
          maker.kind == torch_kind::kernel || static_cast<double>(node.bytes) < total_ / 5000;
    }
    return saved;
  }

  double cost(const std::vector<char>& saved) {
    ++evaluations_;
    return cost_of(model_.evaluate(saved), budget_, scale_);
  }

  void keep_best() {
    if (cost_ < best_cost_) {
      best_cost_ = cost_;
      best_ = current_;
    }
  }

  // Sets the nodes to `value` if that costs less.
  bool attempt(const std::vector<int>& nodes, char value) {
    changed_.clear();
    for (const int v : nodes) {
      auto& saved = current_[static_cast<std::size_t>(v)];
      if (saved == value) continue;
      saved = value;
      changed_.push_back(v);
    }
    if (changed_.empty()) return false;
    const double now = cost(current_);
    if (now < cost_) {
      cost_ = now;
      return true;
    }
    for (const int v : changed_) current_[static_cast<std::size_t>(v)] = !value;
    return false;
  }

  // Each family as a whole, its halves, and every second, third, fourth of its members.
  void over_families() {
    for (bool better = true; better && !late();) {
      better = false;
      for (const auto& family : families_) {
        if (late()) return;
        better |= attempt(family, 0) || attempt(family, 1);
        if (family.size() < 4) continue;
        for (std::size_t stride = 2; stride <= 4; ++stride) {
          std::vector<int> part;
          for (std::size_t i = stride - 1; i < family.size(); i += stride) part.push_back(family[i]);
          better |= attempt(part, 1) || attempt(part, 0);
        }
        const auto middle = family.begin() + static_cast<std::ptrdiff_t>(family.size() / 2);
        for (const auto& half :
             {std::vector<int>(family.begin(), middle), std::vector<int>(middle, family.end())})
          better |= attempt(half, 0) || attempt(half, 1);
      }
    }
  }

  void over_single() {
    for (bool better = true; better && !late();) {
      better = false;
      for (const int v : candidates_) {
        if (late()) return;
        better |= attempt({v}, !current_[static_cast<std::size_t>(v)]);
      }
    }
  }

  void shake(std::mt19937& random) {
    for (int i = 0; i < 4; ++i) {
      const auto& family = families_[random() % families_.size()];
      const char value = static_cast<char>(random() % 2);
      const std::size_t from = random() % family.size(),
                        to = std::min(family.size(), from + 1 + random() % 8);
      for (std::size_t j = from; j < to; ++j) current_[static_cast<std::size_t>(family[j])] = value;
    }
    cost_ = cost(current_);
  }

  const torch_step& step_;
  std::int64_t budget_;
  torch_model model_;
  clock::time_point end_;
  std::vector<int> candidates_, changed_;
  std::vector<std::vector<int>> families_;
  std::vector<char> current_, best_;
  double cost_ = 0, best_cost_ = std::numeric_limits<double>::infinity(), scale_ = 0, total_ = 0;
  std::int64_t evaluations_ = 0;
};

}  // namespace

torch_plan plan_torch(const torch_step& step, std::int64_t budget, const std::vector<int>& begin,
                      double seconds) {
  return search(step, budget, seconds).find(begin);
}

}  // namespace um
