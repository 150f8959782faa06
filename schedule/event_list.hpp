// A list of events, grouped by positions of the order, with the bytes alive at each event. Events of single
// positions can be exchanged.
#pragma once

#include <span>
#include <vector>

#include "schedule/forecast.hpp"
#include "schedule/live_tree.hpp"

namespace um {

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
// Leaves peak and excess unchanged.
void add_to_totals(list_totals& all, const list_totals& one);
void subtract_from_totals(list_totals& all, const list_totals& one);

class event_list {
 public:
  struct position_block {  // the events of one position
    std::vector<event> events;
    live_tree::live_at_events live_bytes;
    list_totals totals;  // without peak and excess
  };

  // Keeps references. No other object may build with `events`.
  event_list(const use_table& uses, event_builder& events, forecaster& costs);

  // Builds the list for these decisions.
  void rebuild(std::span<const decision> decisions, const std::vector<bool>& staged, byte_count budget);
  void recount_excess(byte_count budget);
  // Fills a block from the events that were just built for its position.
  void fill_block(position_block& b, std::span<const event> made, const std::vector<bool>& staged);
  // Exchanges the block of a position with `other`. `before`: bytes alive before the position.
  void exchange_block(position at, position_block& other, std::int64_t before);
  void add_live_bytes(position begin, position end, std::int64_t bytes) {
    live_bytes_.add(begin, end, bytes);
  }
  void set_totals(const list_totals& now) { totals_ = now; }

  const position_block& block_at(position p) const { return blocks_[static_cast<std::size_t>(p)]; }
  const live_tree& live_bytes() const { return live_bytes_; }
  const list_totals& totals() const { return totals_; }
  // Positions before which this one is computed again.
  std::span<const position> recomputed_before(position which) const {
    return recomputed_before_[static_cast<std::size_t>(which)];
  }
  // Position of the peak. Recomputations count as the compute that needs them.
  position peak_position() const;

 private:
  void record_recomputes(const position_block& b, position at, bool there);

  const use_table& uses_;
  event_builder& builder_;
  forecaster& forecaster_;
  std::vector<position_block> blocks_;                    // per position
  std::vector<std::vector<position>> recomputed_before_;  // per position
  live_tree live_bytes_;
  list_totals totals_;
  byte_count budget_ = 0;
  std::vector<part_state> old_states_;  // per part: its state before the position that is being filled
};

}  // namespace um
