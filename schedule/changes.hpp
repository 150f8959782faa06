// Evaluates a change of some decisions without going through all events: the same memory and compute time as
// event_builder and forecaster give, in O(k log n) for k positions whose events change.
//
// Events of a position depend on the states of the parts that it asks for and on the decisions for the gaps
// they are in. So those positions are visited at which a part is asked for whose state or decision differs
// from the current list, and again behind each of them, until all states are alike. Between them events are
// the same, and what is alive differs by the same number of bytes: live_tree answers for such stretches.
#pragma once

#include <queue>
#include <span>
#include <vector>

#include "schedule/event_list.hpp"

namespace um {

// The difference between two lists of events: other events at the visited positions, other bytes alive
// between them.
struct list_change {
  struct visit {
    position at = 0;
    std::int64_t before = 0;  // bytes alive before its first event
    std::size_t block = 0;    // index into blocks
  };
  struct stretch {  // positions with the same events as before
    position begin = 0, end = 0;
    std::int64_t more = 0;  // bytes alive beyond those before; may be negative
  };
  std::vector<visit> visits;
  std::vector<stretch> stretches;
  std::vector<event_list::block> blocks;  // more than there are visits
};
// The figures of the list with that change.
list_figures figures_of(const event_list& list, const list_change& change, position end, byte_count budget);

class changes {
 public:
  // Refers to all; nobody else may build with `events`.
  changes(const use_table& uses, std::span<const gap> gaps, event_builder& events, forecaster& costs);

  // The current list becomes that of these decisions.
  void restart(std::span<const decision> decisions, const std::vector<bool>& staged, byte_count budget);
  // What the list would be with other decisions for `changed`, which `decisions` has, as `staged` follows
  // from them. Refers to all three until keep().
  list_figures evaluate(std::span<const decision> decisions, const std::vector<bool>& staged,
                        std::span<const std::uint32_t> changed, byte_count budget);
  // The current list becomes what was evaluated last.
  void keep();

  // The current list, and the decisions that it follows from.
  const event_list& list() const { return list_; }
  const std::vector<decision>& decisions() const { return decisions_; }
  const std::vector<bool>& staged() const { return staged_; }
  // All events of what was evaluated last; until the next call.
  std::span<const event> events();
  // Positions that were visited so far; one with many events counts as several.
  std::uint64_t visited() const { return visited_; }

 private:
  struct state_change {
    part_id which = 0;
    position behind = 0;
    part_state before = 0, after = 0;
  };

  void forget();
  void visit_later(position at) {
    if (at < uses_.end()) queue_.push(at);
  }
  position next_asked(part_id p, position after) const;
  void visit_gap(std::uint32_t x);
  void change_starts();
  void visit_now(position at);
  void compare(part_id p, position at, part_state was);
  void add_stretch(position begin, position end);
  bool is_staged(const std::vector<bool>& staged, part_id p) const { return staged[uses_.parts[p].what]; }

  const use_table& uses_;
  std::span<const gap> gaps_;
  event_builder& build_;
  event_list list_;
  std::vector<std::vector<position>> used_again_;  // per part: positions that touch it when computed again
  std::vector<decision> decisions_;
  std::vector<bool> staged_;
  byte_count budget_ = 0;

  // What is evaluated.
  std::span<const decision> new_decisions_;
  const std::vector<bool>* new_staged_ = nullptr;
  std::span<const std::uint32_t> changed_;
  std::vector<tensor_id> flipped_;  // tensors staged in only one of the two lists
  std::priority_queue<position, std::vector<position>, std::greater<>> queue_;
  list_change change_;
  std::vector<state_change> states_;
  std::vector<std::int64_t> differs_by_;  // per part: bytes alive beside those of the current list
  std::vector<part_id> pinned_;           // parts whose state was pinned; some may be unpinned again
  std::int64_t more_ = 0;                 // sum of differs_by_
  list_figures found_;
  std::vector<event> all_events_;
  std::uint64_t visited_ = 0;
};

}  // namespace um
