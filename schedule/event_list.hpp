// A list of events, grouped by positions of the order, with the bytes alive at each event. The events of a
// position can be exchanged.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.hpp"
#include "schedule/forecast.hpp"
#include "schedule/uses.hpp"

namespace um {

// Bytes alive over an order of computes, updated and queried in O(log n): a segment tree over positions. Each
// leaf holds the bytes alive at the events of its position.

// Peak of the bytes alive, and the bytes beyond a budget summed over events.
struct live_summary {
  std::int64_t peak = 0;     // bytes alive
  std::uint64_t excess = 0;  // bytes beyond the budget, summed over events
};

class live_tree {
 public:
  // Bytes alive at each event of a position, less those alive before its first event.
  using relative_live_bytes = std::vector<std::int64_t>;
  explicit live_tree(std::size_t positions);

  // Replaces all positions. `before`: per position, bytes alive before its first event.
  void assign(std::vector<relative_live_bytes> live, std::span<const std::int64_t> before);
  // Exchanges those of one position with `live`.
  void exchange(position at, relative_live_bytes& live, std::int64_t before);
  // Adds `bytes` at all positions in [begin, end).
  void add(position begin, position end, std::int64_t bytes);

  std::int64_t live_before(position at) const;
  // Bytes alive before the first event of each position, for all positions. Takes O(n).
  std::span<const std::int64_t> live_before_each();
  const relative_live_bytes& live_at(position p) const {
    return relative_live_bytes_[static_cast<std::size_t>(p)];
  }
  // Summary of [begin, end), with `added` bytes more at every event.
  live_summary summarize(position begin, position end, std::int64_t added, std::int64_t budget) const;
  // The first position that reaches this many bytes alive; the number of positions if none does.
  position first_reaching(std::int64_t bytes) const;

 private:
  struct node {
    // Maximum, minimum and sum of the bytes alive at all events below the node, including `added`.
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
                 std::int64_t added, std::int64_t budget, live_summary& found) const;

  std::vector<relative_live_bytes> relative_live_bytes_;  // per position
  std::size_t leaf_count_ = 1;                            // a power of two
  std::vector<node> nodes_;                // node 1 is the root, nodes 2k and 2k + 1 are the children of k
  std::vector<std::int64_t> added_above_;  // scratch: per node
};

// Peak and excess at one position. `live_before`: bytes alive before its first event.
live_summary summarize_live(const live_tree::relative_live_bytes& relative_live, std::int64_t live_before,
                            std::int64_t budget);

// Totals of a list of events.
struct list_totals {
  byte_count peak = 0;                               // maximum of the bytes alive
  std::uint64_t excess = 0;                          // sum over events of the bytes beyond the budget
  nanoseconds compute_time = 0, recompute_time = 0;  // time of all computes; of recomputations only
  byte_count fetched_bytes = 0;                      // bytes copied to the device
  std::int64_t fetch_count = 0,
               transfer_count = 0;  // number of copies to the device; of copies in both directions
  std::int64_t event_count = 0;
};
// Does not change peak and excess.
void add_to_totals(list_totals& all, const list_totals& one);
void subtract_from_totals(list_totals& all, const list_totals& one);

class event_list {
 public:
  struct position_block {                       // the events of one position
    std::vector<event> events;                  // of that position
    live_tree::relative_live_bytes live_bytes;  // empty in a list, whose tree holds them
    list_totals totals;                         // without peak and excess
  };

  // Keeps references. No other object may build with `events`.
  event_list(const use_table& uses, event_builder& events, forecaster& costs);

  // Builds the list for these decisions. Stops, with part of it, as soon as it exceeds `max_events`.
  void rebuild(std::span<const decision> decisions, const std::vector<bool>& staged_tensors,
               byte_count budget, std::int64_t max_events);
  void recount_excess(byte_count budget);
  byte_count budget() const { return budget_; }
  // Bytes more at every event if other tensors are staged, since fewer of the rest are joined.
  std::int64_t joined_difference(const std::vector<bool>& staged_tensors,
                                 const std::vector<bool>& others) const {
    return static_cast<std::int64_t>(forecaster_.joined_bytes(staged_tensors)) -
           static_cast<std::int64_t>(forecaster_.joined_bytes(others));
  }
  // Fills a block from the events that event_builder just built for its position.
  void fill_block(position_block& b, std::span<const event> made, const std::vector<bool>& staged_tensors);
  // Exchanges the block of a position with `other`. `before`: bytes alive before the position.
  void exchange_block(position at, position_block& other, std::int64_t before);
  void add_live_bytes(position begin, position end, std::int64_t bytes) {
    live_bytes_.add(begin, end, bytes);
  }
  void set_totals(const list_totals& now) { totals_ = now; }

  const position_block& block_at(position p) const { return blocks_[static_cast<std::size_t>(p)]; }
  const live_tree& live_bytes() const { return live_bytes_; }
  std::span<const std::int64_t> live_before_each() { return live_bytes_.live_before_each(); }
  const list_totals& totals() const { return totals_; }
  // Positions before which this one is computed again.
  std::span<const position> recomputed_before(position which) const {
    return recomputed_before_[static_cast<std::size_t>(which)];
  }
  // Position of the peak. Recomputations count as the compute that needs them.
  position peak_position() const;

 private:
  // Replaces the recomputations before a position.
  void replace_recomputes(std::span<const event> old, std::span<const event> now, position at);

  const use_table& uses_;
  event_builder& builder_;
  forecaster& forecaster_;
  std::vector<position_block> blocks_;  // per position
  std::vector<std::vector<position>>
      recomputed_before_;  // per position: the positions before which it is recomputed
  live_tree live_bytes_;
  list_totals totals_;
  byte_count budget_ = 0;
};

}  // namespace um
