#include "schedule/bounds/closure.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

namespace um {
namespace {

// Maximum flow from a source through items with gains to items with costs and on to a sink. Edges lead from
// an item to those that it requires, and back.
class closure_flow {
 public:
  closure_flow(const std::vector<double>& gain, const std::vector<std::vector<std::size_t>>& needs)
      : remaining_gain_(gain.size()), remaining_cost_(gain.size()), first_edge_(gain.size() + 2, 0) {
    for (std::size_t i = 0; i < gain.size(); ++i) {
      remaining_gain_[i] = std::max(0.0, gain[i]);
      remaining_cost_[i] = std::max(0.0, -gain[i]);
      first_edge_[i + 2] += needs[i].size();
      for (const std::size_t to : needs[i]) ++first_edge_[to + 2];
    }
    std::partial_sum(first_edge_.begin(), first_edge_.end(), first_edge_.begin());
    edges_.resize(first_edge_.back());
    // first_edge_[i + 1] is where the next edge of i is stored; in the end the edges of i + 1 begin there.
    for (std::size_t i = 0; i < gain.size(); ++i) {
      for (const std::size_t to : needs[i]) {
        const std::size_t along = first_edge_[i + 1]++, back = first_edge_[to + 1]++;
        edges_[along] = {to, back, std::numeric_limits<double>::max() / 4};
        edges_[back] = {i, along, 0};
      }
    }
  }

  // Pushes the maximum flow. Returns the items that the source still reaches: the best closure.
  std::vector<bool> find_best_closure() {
    for (std::size_t i = 0; i < remaining_gain_.size(); ++i) {
      while (remaining_gain_[i] > 0) {
        is_visited_.assign(remaining_gain_.size(), false);
        const double sent = push_flow(i, remaining_gain_[i]);
        if (sent <= 0) break;
        remaining_gain_[i] -= sent;
      }
    }
    is_visited_.assign(remaining_gain_.size(), false);
    for (std::size_t i = 0; i < remaining_gain_.size(); ++i) {
      if (remaining_gain_[i] > 0) mark_reachable(i);
    }
    return is_visited_;
  }

 private:
  struct edge {
    std::size_t to = 0, reverse = 0;
    double capacity = 0;
  };

  std::span<edge> edges_of(std::size_t at) {
    return std::span(edges_).subspan(first_edge_[at], first_edge_[at + 1] - first_edge_[at]);
  }

  double push_flow(std::size_t at, double most) {
    is_visited_[at] = true;
    if (remaining_cost_[at] > 0) {
      const double sent = std::min(most, remaining_cost_[at]);
      remaining_cost_[at] -= sent;
      return sent;
    }
    for (edge& e : edges_of(at)) {
      if (e.capacity <= 0 || is_visited_[e.to]) continue;
      const double sent = push_flow(e.to, std::min(most, e.capacity));
      if (sent <= 0) continue;
      e.capacity -= sent;
      edges_[e.reverse].capacity += sent;
      return sent;
    }
    return 0;
  }
  void mark_reachable(std::size_t at) {
    if (is_visited_[at]) return;
    is_visited_[at] = true;
    for (const edge& e : edges_of(at)) {
      if (e.capacity > 0) mark_reachable(e.to);
    }
  }

  std::vector<double> remaining_gain_, remaining_cost_;  // gain not yet sent, cost not yet used up
  std::vector<std::size_t> first_edge_;                  // per item: index of its first edge
  std::vector<edge> edges_;                              // edges to other items and their reverse edges
  std::vector<bool> is_visited_;
};

}  // namespace

std::vector<bool> max_weight_closure(const std::vector<double>& gain,
                                     const std::vector<std::vector<std::size_t>>& needs) {
  return closure_flow(gain, needs).find_best_closure();
}

}  // namespace um
