// The hill climber of all searches: from a start to better neighbours, kind after kind, until a whole round
// of kinds has brought nothing. It draws no numbers and rates nothing twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace um {

// Points one step away, of one kind, in the order in which they are tried; the best of them is taken. Kinds
// of one point each take whatever is better at once.
template <class Point>
struct neighbours {
  std::string what;  // the kind, in words
  std::vector<Point> all;
};

template <class Point, class Cost>
struct rated {
  Point what;
  std::optional<Cost> cost;  // nothing: the point is invalid or its trial failed
};

// The functions that define a search. `rate` gives one cost a point; nothing: the search is to stop.
// `is_worth` says whether the step from one rated point to another, which has a cost, is taken.
template <class Point, class Cost>
struct landscape {
  using costs = std::optional<std::vector<std::optional<Cost>>>;
  std::function<std::vector<neighbours<Point>>(const Point&)> around;
  std::function<costs(std::span<const Point>, const std::string& what)> rate;
  std::function<bool(const rated<Point, Cost>& from, const rated<Point, Cost>& to)> is_worth;
};

template <class Point, class Cost, class Same = std::equal_to<>>
class climber {
 public:
  // Rates at most `most` points, and each point once.
  climber(landscape<Point, Cost> on, std::size_t most) : landscape_(std::move(on)), most_(most) {}

  // Those that are not known yet, as far as there are trials left. False if the search is at its end.
  bool try_all(std::span<const Point> points, const std::string& what) {
    std::vector<Point> fresh;
    for (const Point& x : points) {
      const bool known =
          find(x) != nullptr || std::ranges::any_of(fresh, [&](const Point& y) { return Same{}(x, y); });
      if (!known && tried_.size() + fresh.size() < most_) fresh.push_back(x);
    }
    if (fresh.empty()) return may_go_on();
    auto costs = landscape_.rate(fresh, what);
    if (!costs) {
      stopped_ = true;
      return false;
    }
    for (std::size_t i = 0; i < fresh.size(); ++i) tried_.push_back({std::move(fresh[i]), costs->at(i)});
    return may_go_on();
  }

  // From a point on. Where it ended; everything on the way is among tried().
  Point climb(Point at) {
    if (!try_all(std::span(&at, 1), "the start")) return at;
    for (bool better = true; better;) {
      better = false;
      for (std::size_t kind = 0;; ++kind) {
        const std::vector<neighbours<Point>> kinds = landscape_.around(at);
        if (kind >= kinds.size()) break;
        const bool more = try_all(kinds[kind].all, kinds[kind].what);
        if (auto next = best_of(at, kinds[kind].all)) {
          at = std::move(*next);
          better = true;
        }
        if (!more) return at;
      }
    }
    return at;
  }

  const std::vector<rated<Point, Cost>>& tried() const { return tried_; }
  bool stopped() const { return stopped_; }
  bool may_go_on() const { return !stopped_ && tried_.size() < most_; }

 private:
  const rated<Point, Cost>* find(const Point& x) const {
    const auto at =
        std::ranges::find_if(tried_, [&](const rated<Point, Cost>& r) { return Same{}(r.what, x); });
    return at == tried_.end() ? nullptr : &*at;
  }

  std::optional<Point> best_of(const Point& at, const std::vector<Point>& all) const {
    const rated<Point, Cost>* best = nullptr;
    for (const Point& x : all) {
      const auto* to = find(x);
      if (to == nullptr || !to->cost || !landscape_.is_worth(*find(at), *to)) continue;
      if (best == nullptr || *to->cost < *best->cost) best = to;
    }
    return best == nullptr ? std::nullopt : std::optional<Point>(best->what);
  }

  landscape<Point, Cost> landscape_;
  std::size_t most_;
  std::vector<rated<Point, Cost>> tried_;
  bool stopped_ = false;
};

}  // namespace um
