// Bytes alive over an order of computes, changed and asked for in O(log n): a segment tree over positions,
// each of which has the bytes that are alive at its events.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.hpp"
#include "schedule/uses.hpp"

namespace um {

// Bytes beyond a budget: at the peak, and summed over events.
struct excess_of {
  std::int64_t peak = 0;  // bytes alive, not bytes beyond
  std::uint64_t over = 0;
};

class live_tree {
 public:
  // `live`: per position, what is alive at its events beside what is alive before the first of them.
  using events_live = std::vector<std::int64_t>;
  explicit live_tree(std::size_t positions);

  // Everything anew. `before`: per position, what is alive before its first event.
  void assign(std::vector<events_live> live, std::span<const std::int64_t> before);
  // One position anew.
  void replace(position at, events_live live, std::int64_t before);
  // Adds `bytes` at all positions in [begin, end).
  void add(position begin, position end, std::int64_t bytes);

  std::int64_t before(position at) const;
  const events_live& at(position p) const { return live_[static_cast<std::size_t>(p)]; }
  // Over [begin, end), if that many bytes more were alive there.
  excess_of over(position begin, position end, std::int64_t more, std::int64_t budget) const;
  // The first position at which so many bytes are alive; the number of positions if there is none.
  position first_with(std::int64_t bytes) const;

 private:
  struct node {
    std::int64_t most = 0, least = 0, sum = 0;  // bytes alive at its events, `more` included
    std::int64_t more = 0;                      // bytes added to the whole subtree
    std::int64_t events = 0;
  };
  void summarize(std::size_t leaf);
  void pull(std::size_t k);                      // recomputes node k from its children
  void lift(std::size_t k, std::int64_t bytes);  // adds bytes to the subtree of node k
  void add(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
           std::int64_t bytes);
  void over(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
            std::int64_t more, std::int64_t budget, excess_of& found) const;

  std::vector<events_live> live_;
  std::size_t leaves_ = 1;   // a power of two
  std::vector<node> nodes_;  // 1 is the root, 2k and 2k + 1 are below k
};

// Of events alone.
excess_of over(const live_tree::events_live& live, std::int64_t before, std::int64_t budget);

}  // namespace um
