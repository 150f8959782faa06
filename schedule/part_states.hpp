// Where the value of each part is: at the current position while events are built, and at all positions of an
// earlier list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "schedule/uses.hpp"

namespace um {

// A set of bits. `occupies_memory`: its device memory is taken. It is for parts on the device, and always for
// parts that never leave it, even after their last use.
using part_state = std::uint8_t;
inline constexpr part_state on_device = 1, valid_at_home = 2, occupies_memory = 4;

class part_states {
 public:
  explicit part_states(std::size_t parts)
      : current_(parts, 0), queried_in_step_(parts, 0), pinned_(parts, 0), history_(parts) {}

  // --- building all positions: every state is known ---
  void set_initial(part_id p, part_state s) { current_[p] = s; }
  void assume_all_known() { current_step_ = 0; }

  // --- building one position: a state is pinned or comes from the history ---
  struct queried_part {
    part_id part = 0;
    part_state old_state = 0;
  };
  void begin_step(position at) {
    position_ = at;
    current_step_ = ++step_count_;
    queried_parts_.clear();
  }
  // Parts whose state was queried since begin_step().
  const std::vector<queried_part>& queried_parts() const { return queried_parts_; }
  void pin(part_id p, part_state s) {
    pinned_[p] = 1;
    current_[p] = s;
  }
  void unpin(part_id p) { pinned_[p] = 0; }
  bool is_pinned(part_id p) const { return pinned_[p] != 0; }

  part_state& state_of(part_id p) {
    if (current_step_ != 0 && queried_in_step_[p] != current_step_) record_query(p);
    return current_[p];
  }
  bool is_on_device(part_id p) { return (state_of(p) & on_device) != 0; }

  // --- history: states between positions ---
  void reset_history(part_id p, part_state initial) { history_[p].assign(1, {-1, initial}); }
  void replace_initial(part_id p, part_state initial) { history_[p].front().state = initial; }
  // Records that the state changes from `before` to `after` at position `at`.
  void record_change(part_id p, position at, part_state before, part_state after) {
    std::vector<state_change>& all = history_[p];
    auto x = std::ranges::lower_bound(all, at, {}, &state_change::after);
    const bool known = x != all.end() && x->after == at;
    if (before == after) {
      if (known) all.erase(x);
    } else if (known) {
      x->state = after;
    } else {
      all.insert(x, {at, after});
    }
  }
  part_state state_after(part_id p, position at) const {
    const std::vector<state_change>& all = history_[p];
    return std::prev(std::ranges::upper_bound(all, at, {}, &state_change::after))->state;
  }

 private:
  struct state_change {
    position after = -1;  // the state holds after this position
    part_state state = 0;
  };

  void record_query(part_id p) {
    queried_in_step_[p] = current_step_;
    if (pinned_[p] == 0) current_[p] = state_after(p, position_ - 1);
    queried_parts_.push_back({p, current_[p]});
  }

  std::vector<part_state> current_;             // per part: state at the current position
  std::vector<std::uint64_t> queried_in_step_;  // per part: the last step that queried its state
  std::vector<char> pinned_;
  std::vector<std::vector<state_change>> history_;  // sorted by `after`; the first entry is at -1
  std::vector<queried_part> queried_parts_;
  std::uint64_t current_step_ = 0,
                step_count_ = 0;  // current step (0: every state is known); number of steps so far
  position position_ = 0;         // the current position
};

}  // namespace um
