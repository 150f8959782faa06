// Evaluates a change of some decisions: computes the memory and compute time of the new list of events in O(k
// log n) for k positions whose events change. The results equal those of event_builder and forecaster. A
// position's events depend on the states of the parts that it touches and on the decisions for their gaps. So
// it rebuilds, in order, only positions that touch a part whose state or decision differs, until all states
// agree with the current list. Between them events stay the same and the bytes alive differ by a constant,
// which live_tree adds to a whole range.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedule/event_list.hpp"
#include "schedule/position_set.hpp"

namespace um {

// Difference between two lists of events: new events at the visited positions, other bytes alive between
// them.
struct list_change {
  struct visited_position {
    position at = 0;
    std::int64_t live_before = 0;  // bytes alive before the position's first event
    std::size_t block_index = 0;   // index into `blocks`
  };
  struct unchanged_range {  // positions whose events did not change
    position begin = 0, end = 0;
    std::int64_t added_bytes = 0;  // may be negative
  };
  std::vector<visited_position> visited;
  std::vector<unchanged_range> unchanged;
  std::vector<event_list::position_block> blocks;  // may be longer than `visited`, since entries are reused
};
// Totals of the list after the change.
list_totals totals_after(const event_list& list, const list_change& change, position end, byte_count budget);
// Events of the list after the change, and bytes alive at each of them.
std::span<const event> events_after(const event_list& list, const list_change& change, position end,
                                    std::vector<event>& into);
std::span<const byte_count> live_bytes_after(event_list& list, const list_change& change, position end,
                                             std::vector<byte_count>& into);

// Maximum of the bytes alive at each position, as live_at_positions() gets it from a list's events
// (schedule/fit_transfers.hpp), for lists that change.
class position_live_bytes {
 public:
  // Forgets the current list.
  void clear() { list_maxima_.clear(); }
  // Says that the change is made to the current list.
  void accept(const list_change& change);
  // Per position, the maximum of the list after the change. Valid until the next call.
  std::span<const byte_count> maxima_after(event_list& list, const list_change& change, position end);

 private:
  // Maxima over a position's events, less the bytes alive before the first. `releasing`: over evictions and
  // discards before its compute, which count for the position before. `others`: over its other events.
  struct position_maxima {
    std::int64_t releasing = 0, others = 0;
  };
  static position_maxima maxima_of(std::span<const event> events,
                                   const live_tree::relative_live_bytes& relative_live);

  std::vector<position_maxima> list_maxima_;  // per position of the current list; empty until it is asked for
  std::vector<byte_count> maxima_after_;
};

// The state of a part around a position of the list that is evaluated.
struct changed_state {
  part_id part = 0;
  position after = 0;  // the position after which it has new_state
  part_state old_state = 0, new_state = 0;
};

class change_evaluator {
 public:
  // Keeps references. No other object may use `new_events`.
  change_evaluator(const use_table& uses, std::span<const gap> gaps, event_builder& new_events,
                   forecaster& costs);

  // Makes the list of these decisions the current one. Returns false if it exceeds `max_events`; then there
  // is no current list.
  bool rebuild(std::span<const decision> decisions, const std::vector<bool>& staged_tensors,
               byte_count budget, std::int64_t max_events = std::numeric_limits<std::int64_t>::max());
  // Returns the totals of the list for `decisions`, which differ from the current ones only at the gaps
  // `changed`. `staged_tensors` is find_staged_tensors() of them. Keeps all three references until accept().
  list_totals evaluate(std::span<const decision> decisions, const std::vector<bool>& staged_tensors,
                       std::span<const std::uint32_t> changed, byte_count budget);
  // Makes the list that was evaluated last the current one.
  void accept();

  // The current list and its decisions.
  const event_list& list() const { return list_; }
  const std::vector<decision>& decisions() const { return decisions_; }
  // All events of the list that was evaluated last. Valid until the next call.
  std::span<const event> new_events() { return events_after(list_, change_, uses_.end(), all_events_); }
  // Bytes alive at each of them.
  std::span<const byte_count> new_live_bytes() {
    return live_bytes_after(list_, change_, uses_.end(), all_live_bytes_);
  }
  // Bytes alive at each position, as live_at_positions() gets them from these. Takes O(n).
  std::span<const byte_count> new_live_at_positions() {
    return live_at_positions_.maxima_after(list_, change_, uses_.end());
  }
  // Number of positions rebuilt so far, a measure of work; one with many events counts several times.
  std::uint64_t visited_count() const { return visited_count_; }

 private:
  void reset();
  void enqueue(position at) {
    if (done_ <= at && at < uses_.end()) pending_positions_.add(at);
  }
  position next_dependent_position(part_id p, position after) const;
  void enqueue_gap(std::uint32_t x);
  void update_transfers();
  void compare_initial_states();
  void rebuild_position(position at);
  void record_state_difference(const changed_state& x, part_state listed);
  void add_unchanged_range(position begin, position end) {
    if (begin < end && total_difference_ != 0) change_.unchanged.push_back({begin, end, total_difference_});
  }
  // Of the gap in the evaluated list if `is_new`, otherwise in the current one.
  gap_transfers transfers_of(std::uint32_t x, bool is_new) const {
    const bool staged = (is_new ? *new_staged_tensors_ : staged_tensors_)[uses_.parts[gaps_[x].part].tensor];
    return transfers_of_gap(gaps_[x], is_new ? new_decisions_[x] : decisions_[x], staged, uses_.end());
  }

  const use_table& uses_;
  std::span<const gap> gaps_;
  event_builder& builder_;
  event_list list_;
  std::vector<std::vector<position>> recompute_touches_;  // per part: positions whose recompute touches it
  std::vector<decision> decisions_;
  std::vector<bool> staged_tensors_;

  // The change that evaluate() got last.
  std::span<const decision> new_decisions_;
  const std::vector<bool>* new_staged_tensors_ = nullptr;
  std::span<const std::uint32_t> changed_gaps_;
  // Gaps whose transfers in the builder's index may be those of the last evaluated list, not the current one.
  std::vector<std::uint32_t> gaps_with_other_transfers_;
  std::vector<tensor_id> changed_tensors_;  // staged in only one of the two lists
  position done_ = 0;                       // everything before is known
  position_set pending_positions_;
  list_change change_;
  std::vector<changed_state> state_changes_;
  std::vector<std::int64_t> live_difference_;  // per part: bytes alive, less those in the current list
  std::vector<part_id> pinned_parts_;  // parts whose state was pinned; some may have been unpinned since
  std::int64_t total_difference_ = 0;  // sum of live_difference_ and of bytes of joined tensors
  list_totals new_totals_;
  std::vector<event> all_events_;
  std::vector<byte_count> all_live_bytes_;
  position_live_bytes live_at_positions_;
  std::uint64_t visited_count_ = 0;
};

}  // namespace um
