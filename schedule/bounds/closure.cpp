#include "schedule/bounds/closure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace um {
namespace {

// Flow from a source through what gains to what costs and on to a sink, along needs and back.
class flow {
 public:
  flow(const std::vector<double>& gain, const std::vector<std::vector<std::size_t>>& needs)
      : left_(gain.size()), room_(gain.size()), first_(gain.size() + 2, 0) {
    for (std::size_t i = 0; i < gain.size(); ++i) {
      left_[i] = std::max(0.0, gain[i]);
      room_[i] = std::max(0.0, -gain[i]);
      first_[i + 2] += needs[i].size();
      for (const std::size_t to : needs[i]) ++first_[to + 2];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    edges_.resize(first_.back());
    // first_[i + 1] is where the next edge of i goes, and in the end where those of i + 1 begin.
    for (std::size_t i = 0; i < gain.size(); ++i) {
      for (const std::size_t to : needs[i]) {
        const std::size_t along = first_[i + 1]++, back = first_[to + 1]++;
        edges_[along] = {to, back, std::numeric_limits<double>::max() / 4};
        edges_[back] = {i, along, 0};
      }
    }
  }

  // What is still reachable from the source once no more flows.
  std::vector<bool> accessible_without_fault() {
    for (std::size_t i = 0; i < left_.size(); ++i) {
      while (left_[i] > 0) {
        seen_.assign(left_.size(), false);
        const double sent = push(i, left_[i]);
        if (sent <= 0) break;
        left_[i] -= sent;
      }
    }
    seen_.assign(left_.size(), false);
    for (std::size_t i = 0; i < left_.size(); ++i) {
      if (left_[i] > 0) visit(i);
    }
    return seen_;
  }

 private:
  struct edge {
    std::size_t to = 0, reverse = 0;
    double room = 0;
  };

  std::span<edge> edges_of(std::size_t at) {
    return std::span(edges_).subspan(first_[at], first_[at + 1] - first_[at]);
  }

  double push(std::size_t at, double most) {
    seen_[at] = true;
    if (room_[at] > 0) {
      const double sent = std::min(most, room_[at]);
      room_[at] -= sent;
      return sent;
    }
    for (edge& e : edges_of(at)) {
      if (e.room <= 0 || seen_[e.to]) continue;
      const double sent = push(e.to, std::min(most, e.room));
      if (sent <= 0) continue;
      e.room -= sent;
      edges_[e.reverse].room += sent;
      return sent;
    }
    return 0;
  }
  void visit(std::size_t at) {
    if (seen_[at]) return;
    seen_[at] = true;
    for (const edge& e : edges_of(at)) {
      if (e.room > 0) visit(e.to);
    }
  }

  std::vector<double> left_, room_;  // what a gain still sends, what a cost still takes
  std::vector<std::size_t> first_;   // per item: the first of its edges
  std::vector<edge> edges_;          // to other items, and their reverse
  std::vector<bool> seen_;
};

}  // namespace

std::vector<bool> best_closure(const std::vector<double>& gain,
                               const std::vector<std::vector<std::size_t>>& needs) {
  return flow(gain, needs).accessible_without_fault();
}

}  // namespace um
