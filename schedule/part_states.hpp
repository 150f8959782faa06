// Where the value of each part is while the events of an order are made, and where it was for an earlier
// list of decisions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "schedule/uses.hpp"

namespace um {

// A set of bits. `takes_room`: its room is taken, which that of a part on the device is, and that of a part
// that never leaves it, also behind its last use.
using part_state = std::uint8_t;
inline constexpr part_state on_device = 1, valid_at_home = 2, takes_room = 4;

class part_states {
 public:
  explicit part_states(std::size_t parts)
      : now_(parts, 0), seen_(parts, 0), pinned_(parts, 0), history_(parts) {}

  // --- all at once: every state is known ---
  void start(part_id p, part_state s) { now_[p] = s; }
  void know_all() { step_ = 0; }

  // --- position by position: a state is what the history says before it, or what was pinned ---
  struct seen_part {
    part_id which = 0;
    part_state before = 0;
  };
  void begin_step(position at) {
    at_ = at;
    step_ = ++steps_;
    seen_parts_.clear();
  }
  // Those that were asked for since then.
  const std::vector<seen_part>& seen() const { return seen_parts_; }
  void pin(part_id p, part_state s) {
    pinned_[p] = 1;
    now_[p] = s;
  }
  void unpin(part_id p) { pinned_[p] = 0; }
  bool is_pinned(part_id p) const { return pinned_[p] != 0; }

  part_state& of(part_id p) {
    if (step_ != 0 && seen_[p] != step_) see(p);
    return now_[p];
  }
  bool is_here(part_id p) { return (of(p) & on_device) != 0; }

  // --- history: the states between positions ---
  void forget(part_id p, part_state initial) { history_[p].assign(1, {-1, initial}); }
  void restart(part_id p, part_state initial) { history_[p].front().state = initial; }
  // From behind `at` on, until the next change.
  void note(part_id p, position at, part_state before, part_state after) {
    std::vector<change>& all = history_[p];
    auto x = std::ranges::lower_bound(all, at, {}, &change::behind);
    const bool known = x != all.end() && x->behind == at;
    if (before == after) {
      if (known) all.erase(x);
    } else if (known) {
      x->state = after;
    } else {
      all.insert(x, {at, after});
    }
  }
  part_state behind(part_id p, position at) const {
    const std::vector<change>& all = history_[p];
    return std::prev(std::ranges::upper_bound(all, at, {}, &change::behind))->state;
  }

 private:
  struct change {
    position behind = -1;
    part_state state = 0;
  };

  void see(part_id p) {
    seen_[p] = step_;
    if (pinned_[p] == 0) now_[p] = behind(p, at_ - 1);
    seen_parts_.push_back({p, now_[p]});
  }

  std::vector<part_state> now_;      // per part: its state at the current position
  std::vector<std::uint64_t> seen_;  // per part: the step in which it was asked for last
  std::vector<char> pinned_;
  std::vector<std::vector<change>> history_;  // by `behind`; the first is of -1
  std::vector<seen_part> seen_parts_;
  std::uint64_t step_ = 0, steps_ = 0;  // current step, steps so far; step_ is 0 while every state is known
  position at_ = 0;
};

}  // namespace um
