// Decisions for all gaps, and the events and memory plan that follow from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "schedule/uses.hpp"

namespace um {

// State of each part: at the current position while events are built, and after each position of an earlier
// list.

// A set of bits. `occupies_memory`: the part takes device memory. It is set for parts on the device, and
// always for parts that never leave it, even after their last use.
using part_state = std::uint8_t;
inline constexpr part_state on_device = 1, valid_at_home = 2, occupies_memory = 4;

class part_states {
 public:
  explicit part_states(std::size_t parts)
      : current_(parts, 0), queried_in_step_(parts, 0), pinned_(parts, 0), history_(parts) {}

  // --- building all positions: every state is known ---
  void set_initial(part_id p, part_state s) { current_[p] = s; }
  void assume_all_known() { current_step_ = 0; }

  // --- building one position: states come from the history unless they are pinned ---
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
  void pin(part_id p, part_state s) {  // fixes the part's state until unpin()
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

  // --- history: the state of each part after each position ---
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

enum class gap_choice : std::uint8_t {
  keep,       // the part stays on the device
  swap,       // it is copied to the host after `leave_after` and back before `return_before`
  recompute,  // it is discarded after its last use and computed again when an operator needs it
};

// The decision for one gap. Positions outside the gap are clamped to its ends.
struct decision {
  gap_choice choice = gap_choice::keep;
  position leave_after = 0;  // swap: the part leaves after this position
  // swap: the part returns before this position. recompute: once recomputed, the part stays from this
  // position on. Before it, the part is recomputed for another recomputation that needs it, and released
  // again.
  position return_before = 0;
  friend bool operator==(const decision&, const decision&) = default;
};

// One action of a plan. All but `compute` concern one part.
enum class event_kind : std::uint8_t { compute, prefetch, evict, discard };
struct event {
  event_kind kind = event_kind::compute;
  std::uint32_t subject = 0;  // compute: a position of the order; otherwise a part
  bool is_recompute = false;  // compute: a recomputation
  friend bool operator==(const event&, const event&) = default;
};

// Per tensor, whether its residence is `staged`: a part of it is swapped in some gap. Other tensors stay on
// the device.
std::vector<bool> find_staged_tensors(const use_table& uses, std::span<const gap> gaps,
                                      std::span<const decision> decisions);

// The events of a plan. `decisions`: one per gap of find_gaps(). An input that is not on the device is first
// fetched or recomputed, and so, recursively, are the inputs of recomputations. A staged tensor that starts
// on the host is fetched at the start unless its decision says otherwise; one that must be kept is copied to
// the host at the end. Includes discards of parts that nothing touches afterwards, which plans leave out.
// Throws std::invalid_argument if `recompute` or `swap` is decided where it is impossible.
std::vector<event> build_events(const graph& g, const use_table& uses, std::span<const gap> gaps,
                                std::span<const decision> decisions);

// Positions of a gap's transfers: the part returns before `return_before` and leaves after `leave_after`. -1:
// no such transfer.
struct gap_transfers {
  position return_before = -1, leave_after = -1;
};
// `staged`: whether the part's tensor is staged. `end`: size of the order.
gap_transfers transfers_of_gap(const gap& e, const decision& d, bool staged, position end);

// Index of transfers by position: the parts that return before it, and the gaps whose parts leave after it.
class transfer_index {
 public:
  struct transfer {
    position at = 0, next_use = 0;  // position of the transfer; next use of its part
    std::uint32_t part_or_gap = 0;  // the part if it returns; the gap if it leaves
  };
  explicit transfer_index(std::size_t positions) : returning_(positions), leaving_(positions) {}
  // Transfers before the same position are in the order of their next use.
  void rebuild(const use_table& uses, std::span<const gap> gaps, std::span<const std::uint32_t> first_gap,
               std::span<const decision> decisions, const std::vector<bool>& staged);
  std::span<const transfer> returning_before(position at) const { return returning_.at(at); }
  std::span<const transfer> leaving_after(position at) const { return leaving_.at(at); }

 private:
  class transfers_by_position {
   public:
    explicit transfers_by_position(std::size_t positions) : first_(positions + 1, 0) {}
    void clear() { added_.clear(); }
    void add(const transfer& x) { added_.push_back(x); }
    void sort();  // sorts by position, then by next use; equal ones stay in the order of add()
    std::span<const transfer> at(position p) const {
      const auto i = static_cast<std::size_t>(p);
      return std::span(sorted_).subspan(first_[i], first_[i + 1] - first_[i]);
    }

   private:
    std::vector<transfer> added_, sorted_;
    std::vector<std::uint32_t> first_;  // per position, and one past the last: index into sorted_
  };
  transfers_by_position returning_, leaving_;
};

// Builds the same events as build_events(), repeatedly for a search. Keeps references to all three arguments.
class event_builder {
 public:
  event_builder(const graph& g, const use_table& uses, std::span<const gap> gaps);

  // The result is valid until the next call. `staged`: as find_staged_tensors() returns.
  std::span<const event> build(std::span<const decision> decisions, const std::vector<bool>& staged);

  // --- building single positions ---
  void set_decisions(std::span<const decision> decisions, const std::vector<bool>& staged);
  part_state initial_state(part_id p, bool staged) const;
  part_states& states() { return states_; }
  // The events of one position, valid until the next call.
  std::span<const event> build_position(position at);
  // Index of a part's first gap: its gaps are [first_gap_of(p), first_gap_of(p + 1)).
  std::uint32_t first_gap_of(part_id p) const { return first_gap_[p]; }
  // The gap that a part is in just after or just before a position, or no_gap.
  static constexpr std::uint32_t no_gap = ~std::uint32_t{0};
  std::uint32_t gap_after(part_id p, position at) const;
  std::uint32_t gap_before(part_id p, position at) const { return gap_after(p, at - 1); }

 private:
  struct part_info {
    tensor_id tensor = 0;
    bool persists = false;
    position producer = -1;  // first position that writes it; -1: none
  };
  struct part_touch {
    part_id part = 0;
    access_mode mode = access_mode::read;
    bool is_last_use = false;    // the part's last use: it can be discarded afterwards
    std::uint32_t gap = no_gap;  // the gap that begins here, if any
  };
  std::span<const part_touch> touches_at(position at) const {
    const auto i = static_cast<std::size_t>(at);
    return {touches_.data() + first_touch_[i], touches_.data() + first_touch_[i + 1]};
  }
  void append_events(position at);
  void check_decisions() const;
  [[noreturn]] void throw_impossible(const gap& e, const std::string& verb) const;
  bool is_on_device(part_id p) { return states_.is_on_device(p); }
  void mark_on_device(part_id p) { states_.state_of(p) |= on_device | occupies_memory; }
  void mark_off_device(part_id p) {
    states_.state_of(p) = parts_[p].persists && !(*staged_)[parts_[p].tensor] ? occupies_memory : 0;
  }
  void append_prefetch(part_id p);
  void append_evict(part_id p);
  void append_discard(part_id p);
  void append_compute(position at, bool again, const auto& touches);
  void provide_inputs(position at);
  void require_part(part_id p, position reader);
  void fetch_inputs(const auto& touches);
  void release_after_recompute(part_id p);
  void discard_after_use(const part_touch& x);

  const graph& g_;
  const use_table& uses_;
  std::span<const gap> gaps_;
  std::vector<part_info> parts_;
  std::vector<std::uint32_t> first_gap_;    // per part, and one past the last
  std::vector<part_touch> touches_;         // of all positions, one after another
  std::vector<std::uint32_t> first_touch_;  // per position, and one past the last
  std::span<const decision> decisions_;
  const std::vector<bool>* staged_ = nullptr;
  part_states states_;
  std::vector<position>
      last_reader_;  // per part: position of the last event that reads it while it is off the device
  transfer_index transfers_;
  std::vector<event> events_;
  std::vector<part_id> required_parts_, new_parts_;
  std::vector<position> recomputes_;  // positions to compute again before the current compute
  std::vector<std::uint64_t>
      search_of_recompute_;         // per position: number of the last search for inputs that requested it
  std::uint64_t search_count_ = 0;  // number of searches for inputs so far
  position position_ = 0;
};

memory_plan make_plan(const graph& g, const use_table& uses, std::span<const gap> gaps,
                      std::span<const decision> decisions);

}  // namespace um
