// The hill climber that all searches share. It moves from a start to better neighbours, one kind of neighbour
// after another, until a whole round brings no improvement. It is deterministic and rates each point at most
// once.
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

// Neighbours of one kind, in the order in which they are rated. The search moves to the best of them. To move
// to the first improvement instead, make each point a kind of its own.
template <class Point>
struct neighbour_group {
  std::string kind;  // description for progress messages
  std::vector<Point> points;
};

template <class Point, class Cost>
struct rated {
  Point point;
  std::optional<Cost> cost;  // empty: the point is invalid or its trial failed
};

// The functions that define a search. `rate` returns one cost per point, or nothing to end the search.
// `is_improvement`: whether to move from one rated point to another that has a cost.
template <class Point, class Cost>
struct search_problem {
  using costs = std::optional<std::vector<std::optional<Cost>>>;
  std::function<std::vector<neighbour_group<Point>>(const Point&)> neighbours_of;
  std::function<costs(std::span<const Point>, const std::string& kind)> rate;
  std::function<bool(const rated<Point, Cost>& from, const rated<Point, Cost>& to)> is_improvement;
};

template <class Point, class Cost, class Same = std::equal_to<>>
class hill_climber {
 public:
  // Rates at most `max_points` points, each once.
  hill_climber(search_problem<Point, Cost> searched, std::size_t max_points)
      : problem_(std::move(searched)), max_points_(max_points) {}

  // Rates the points that are not rated yet, within the limit. Returns false if the search has ended.
  bool rate_all(std::span<const Point> points, const std::string& kind) {
    std::vector<Point> unrated;
    for (const Point& x : points) {
      const bool known =
          find(x) != nullptr || std::ranges::any_of(unrated, [&](const Point& y) { return Same{}(x, y); });
      if (!known && rated_points_.size() + unrated.size() < max_points_) unrated.push_back(x);
    }
    if (unrated.empty()) return may_continue();
    auto costs = problem_.rate(unrated, kind);
    if (!costs) {
      is_stopped_ = true;
      return false;
    }
    for (std::size_t i = 0; i < unrated.size(); ++i)
      rated_points_.push_back({std::move(unrated[i]), costs->at(i)});
    return may_continue();
  }

  // Climbs from a point and returns where it ended. All rated points are in rated_points().
  Point climb(Point at) {
    if (!rate_all(std::span(&at, 1), "the start")) return at;
    for (bool better = true; better;) {
      better = false;
      for (std::size_t kind = 0;; ++kind) {
        const std::vector<neighbour_group<Point>> kinds = problem_.neighbours_of(at);
        if (kind >= kinds.size()) break;
        const bool more = rate_all(kinds[kind].points, kinds[kind].kind);
        if (auto next = best_improvement(at, kinds[kind].points)) {
          at = std::move(*next);
          better = true;
        }
        if (!more) return at;
      }
    }
    return at;
  }

  const std::vector<rated<Point, Cost>>& rated_points() const { return rated_points_; }
  bool stopped() const { return is_stopped_; }
  bool may_continue() const { return !is_stopped_ && rated_points_.size() < max_points_; }

 private:
  const rated<Point, Cost>* find(const Point& x) const {
    const auto at =
        std::ranges::find_if(rated_points_, [&](const rated<Point, Cost>& r) { return Same{}(r.point, x); });
    return at == rated_points_.end() ? nullptr : &*at;
  }

  std::optional<Point> best_improvement(const Point& at, const std::vector<Point>& all) const {
    const rated<Point, Cost>* best = nullptr;
    for (const Point& x : all) {
      const auto* to = find(x);
      if (to == nullptr || !to->cost || !problem_.is_improvement(*find(at), *to)) continue;
      if (best == nullptr || *to->cost < *best->cost) best = to;
    }
    return best == nullptr ? std::nullopt : std::optional<Point>(best->point);
  }

  search_problem<Point, Cost> problem_;
  std::size_t max_points_;
  std::vector<rated<Point, Cost>> rated_points_;
  bool is_stopped_ = false;
};

}  // namespace um
