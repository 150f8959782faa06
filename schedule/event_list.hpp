// A list of events by positions of the order, with what is alive at each, kept so that single positions can
// be exchanged.
#pragma once

#include <span>
#include <vector>

#include "schedule/forecast.hpp"
#include "schedule/live_tree.hpp"

namespace um {

// Figures of a list of events.
struct list_figures {
  byte_count peak = 0;
  std::uint64_t over = 0;                   // bytes beyond the budget, summed over events
  nanoseconds computing = 0, again = 0;     // time of all computes; of recomputations
  byte_count fetched = 0;                   // bytes that come to the device
  std::int64_t fetches = 0, transfers = 0;  // number of copies to the device; of copies both ways
  std::int64_t events = 0;
};
// All but peak and over.
void add_to(list_figures& all, const list_figures& one);
void take_from(list_figures& all, const list_figures& one);

class event_list {
 public:
  struct block {  // of a position
    std::vector<event> events;
    live_tree::events_live live;
    list_figures sums;  // without peak and over
  };

  // Refers to all; nobody else may build with `events`.
  event_list(const use_table& uses, event_builder& events, forecaster& costs);

  // Builds the list of these decisions.
  void restart(std::span<const decision> decisions, const std::vector<bool>& staged, byte_count budget);
  void count_beyond(byte_count budget);
  // What happens at a position that `events` went through just now.
  void fill(block& b, std::span<const event> made, const std::vector<bool>& staged);
  // Exchanges both. `before`: bytes alive before the position.
  void exchange(position at, block& other, std::int64_t before);
  void add_alive(position begin, position end, std::int64_t bytes) { live_.add(begin, end, bytes); }
  void set(const list_figures& now) { now_ = now; }

  const block& at(position p) const { return list_[static_cast<std::size_t>(p)]; }
  const live_tree& live() const { return live_; }
  const list_figures& now() const { return now_; }
  // Before which positions this one is computed again.
  std::span<const position> again_before(position which) const {
    return again_before_[static_cast<std::size_t>(which)];
  }
  // The compute at the peak. What is computed again there counts as the compute that it is for.
  position peak() const;

 private:
  void note_again(const block& b, position at, bool there);

  const use_table& uses_;
  event_builder& build_;
  forecaster& costs_;
  std::vector<block> list_;                          // per position
  std::vector<std::vector<position>> again_before_;  // per position
  live_tree live_;
  list_figures now_;
  byte_count budget_ = 0;
  std::vector<part_state> before_;  // per part, at the position that is filled
};

}  // namespace um
