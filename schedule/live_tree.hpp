// Bytes alive over an order of computes, updated and queried in O(log n): a segment tree over positions, each
// of which holds the bytes alive at its events.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.hpp"
#include "schedule/uses.hpp"

namespace um {

// Peak of the bytes alive, and the bytes beyond a budget summed over events.
struct live_summary {
  std::int64_t peak = 0;     // bytes alive
  std::uint64_t excess = 0;  // bytes beyond the budget, summed over events
};

class live_tree {
 public:
  // Bytes alive at each event of a position, less those alive before its first event.
  using live_at_events = std::vector<std::int64_t>;
  explicit live_tree(std::size_t positions);

  // Replaces all positions. `before`: per position, bytes alive before its first event.
  void assign(std::vector<live_at_events> live, std::span<const std::int64_t> before);
  // Replaces one position.
  void replace(position at, live_at_events live, std::int64_t before);
  // Adds `bytes` at all positions in [begin, end).
  void add(position begin, position end, std::int64_t bytes);

  std::int64_t live_before(position at) const;
  const live_at_events& live_at(position p) const { return live_at_events_[static_cast<std::size_t>(p)]; }
  // Summary of [begin, end), with `more` bytes added to every event.
  live_summary summarize(position begin, position end, std::int64_t more, std::int64_t budget) const;
  // The first position that reaches this many bytes alive; the number of positions if none does.
  position first_reaching(std::int64_t bytes) const;

 private:
  struct node {
    // Over the bytes alive at its events, `added` included.
    std::int64_t max_live = 0, min_live = 0, sum_live = 0;
    std::int64_t added = 0;  // bytes added to the whole subtree
    std::int64_t event_count = 0;
  };
  void summarize_leaf(std::size_t leaf);
  void update_node(std::size_t k);                         // computes node k from its children
  void add_to_subtree(std::size_t k, std::int64_t bytes);  // adds bytes to the subtree of node k
  void add(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
           std::int64_t bytes);
  void summarize(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                 std::int64_t more, std::int64_t budget, live_summary& found) const;

  std::vector<live_at_events> live_at_events_;
  std::size_t leaf_count_ = 1;  // a power of two
  std::vector<node> nodes_;     // 1 is the root, 2k and 2k + 1 are below k
};

// Summary of one position's events.
live_summary summarize_live(const live_tree::live_at_events& live, std::int64_t before, std::int64_t budget);

}  // namespace um
