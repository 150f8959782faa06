// Decisions for all gaps, and the events and memory plan that follow from them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "schedule/position_set.hpp"
#include "schedule/uses.hpp"

namespace um {

// State of each part: at the current position while events are built, and after each position of an earlier
// list.

// A set of bits. `occupies_memory`: the part takes device memory. It is set for parts on the device, and
// always for parts that never give up their memory, even after their last use.
using part_state = std::uint8_t;
inline constexpr part_state on_device = 1, valid_at_home = 2, occupies_memory = 4;

// The states of a part between positions. Searches look up a state for each part that a position touches, so
// the first entries lie in one cache line and are compared all at once.
class state_history {
 public:
  state_history() { first_.fill(unused); }
  void reset(part_state initial) {
    first_.fill(unused);
    later_.clear();
    first_[0] = entry_of(-1, initial);
  }
  // The state changes from `before` to `after` at position `at`.
  void record_change(position at, part_state before, part_state after);
  part_state state_after(position at) const {
    const std::int32_t next = entry_of(at + 1, 0);
    if (!later_.empty() && later_.front() < next)
      return state_of(*std::prev(std::ranges::lower_bound(later_, next)));
    std::uint32_t count = 0;
    for (const std::int32_t e : first_) count += e < next ? 1U : 0U;
    return state_of(first_[count - 1]);
  }
  // The states before and after a position.
  std::pair<part_state, part_state> states_around(position at) const {
    const std::int32_t here = entry_of(at, 0), next = here + states;
    if (!later_.empty() && later_.front() < next) return {state_after(at - 1), state_after(at)};
    std::uint32_t before = 0, after = 0;
    for (const std::int32_t e : first_) {
      before += e < here ? 1U : 0U;
      after += e < next ? 1U : 0U;
    }
    return {state_of(first_[before - 1]), state_of(first_[after - 1])};
  }

 private:
  // A state and the position after which it holds, in one number, so that entries are in order of positions.
  static constexpr std::int32_t states = 8, unused = std::numeric_limits<std::int32_t>::max();
  static constexpr std::int32_t entry_of(position after, part_state s) { return (after + 1) * states + s; }
  static constexpr part_state state_of(std::int32_t entry) {
    return static_cast<part_state>(entry & (states - 1));
  }

  std::array<std::int32_t, 8> first_{};  // in order; the first is at -1
  std::vector<std::int32_t> later_;      // those that follow, in order
};

class part_states {
 public:
  explicit part_states(std::size_t parts) : parts_(parts) {}

  // --- building all positions: every state is known ---
  void set_initial(part_id p, part_state s) { parts_[p].current = s; }
  void assume_all_known() { current_step_ = 0; }

  // --- building one position: states come from the history unless they are pinned ---
  struct queried_part {
    part_id part = 0;
    part_state old_state = 0;     // state before the step
    part_state listed_state = 0;  // state after the step's position in the history
  };
  void begin_step(position at) {
    position_ = at;
    current_step_ = ++step_count_;
    queried_parts_.clear();
  }
  // Parts whose state was queried since begin_step().
  const std::vector<queried_part>& queried_parts() const { return queried_parts_; }
  void pin(part_id p, part_state s) {  // it has this state until unpin(), whatever is decided
    parts_[p].is_pinned = true;
    parts_[p].current = s;
  }
  void unpin(part_id p) { parts_[p].is_pinned = false; }
  bool is_pinned(part_id p) const { return parts_[p].is_pinned; }

  part_state& state_of(part_id p) {
    one_part& x = parts_[p];
    if (current_step_ != 0 && x.queried_in_step != current_step_) record_query(p);
    return x.current;
  }
  bool is_on_device(part_id p) { return (state_of(p) & on_device) != 0; }

  // --- history: states between positions ---
  void reset_history(part_id p, part_state initial) { parts_[p].history.reset(initial); }
  // Records for state_after() that the state changes from `before` to `after` at position `at`.
  void record_change(part_id p, position at, part_state before, part_state after) {
    parts_[p].history.record_change(at, before, after);
  }
  part_state state_after(part_id p, position at) const { return parts_[p].history.state_after(at); }

 private:
  struct alignas(64) one_part {
    state_history history;
    std::uint32_t queried_in_step = 0;  // the last step that queried its state
    part_state current = 0;             // state at the current position
    bool is_pinned = false;
  };

  void record_query(part_id p);

  std::vector<one_part> parts_;
  std::vector<queried_part> queried_parts_;
  std::uint32_t current_step_ = 0,
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
  bool is_recompute = false;  // compute: a recomputation
  std::uint32_t subject = 0;  // compute: a position of the order; otherwise a part
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
  friend bool operator==(const gap_transfers&, const gap_transfers&) = default;
};
// `is_staged`: whether the tensor's residence is `staged`; otherwise there are no transfers. `end`: size of
// the order.
gap_transfers transfers_of_gap(const gap& e, const decision& d, bool is_staged, position end);

// Index of transfers by position: the parts that return before it, and the gaps whose parts leave after it.
class transfer_index {
 public:
  struct transfer {
    position next_use = 0;          // of a part that comes back
    std::uint32_t part_or_gap = 0;  // part of a returning transfer, gap of a leaving one
    std::uint32_t gap = 0;
    auto operator<=>(const transfer& other) const {
      return std::pair(next_use, gap) <=> std::pair(other.next_use, other.gap);
    }
    bool operator==(const transfer& other) const = default;
  };
  transfer_index(std::size_t positions, std::size_t gaps)
      : returning_(positions), leaving_(positions), moves_(gaps) {}
  // Without transfers.
  void clear();
  // The transfers of gap `x` are these from now on. Transfers at one position are in the order of their next
  // use, then of gaps.
  void set(std::uint32_t x, const gap& e, const gap_transfers& m);
  std::span<const transfer> returning_before(position at) const {
    return returning_[static_cast<std::size_t>(at)];
  }
  std::span<const transfer> leaving_after(position at) const {
    return leaving_[static_cast<std::size_t>(at)];
  }

 private:
  std::vector<std::vector<transfer>> returning_, leaving_;  // per position
  std::vector<gap_transfers> moves_;                        // per gap
};

// What event_builder knows of a part, and of a position that touches it.
struct part_info {
  tensor_id tensor = 0;
  bool persists = false, keeps_memory = false;
  position producer = -1;  // first position that writes it; -1: none
};
inline constexpr std::uint32_t no_gap = ~std::uint32_t{0};
struct part_touch {
  part_id part = 0;
  access_mode mode = access_mode::read;
  bool is_last_use = false;    // the part's last use: it can be discarded afterwards
  std::uint32_t gap = no_gap;  // the gap that begins here, if any
};

// Builds the same events as build_events(), repeatedly for a search. Keeps references to all three arguments.
class event_builder {
 public:
  event_builder(const graph& g, const use_table& uses, std::span<const gap> gaps);

  // The result is valid until the next call. `staged_tensors`: as find_staged_tensors() returns.
  std::span<const event> build(std::span<const decision> decisions, const std::vector<bool>& staged_tensors);

  // --- building single positions ---
  void set_decisions(std::span<const decision> decisions, const std::vector<bool>& staged_tensors);
  // The same, where decisions and staging differ for the gaps `changed` alone.
  void change_decisions(std::span<const decision> decisions, const std::vector<bool>& staged_tensors,
                        std::span<const std::uint32_t> changed);
  part_state initial_state(part_id p, bool is_staged) const;
  part_states& states() { return states_; }
  // The events of one position, valid until the next call.
  std::span<const event> build_position(position at);
  // Index of a part's first gap: its gaps are [first_gap_of(p), first_gap_of(p + 1)).
  std::uint32_t first_gap_of(part_id p) const { return first_gap_[p]; }
  auto gaps_of(tensor_id t) const {
    return std::views::iota(first_gap_of(uses_.first_part[t]), first_gap_of(uses_.first_part[t + 1]));
  }
  // The gap that a part is in just after a position, or no_gap.
  std::uint32_t gap_after(part_id p, position at) const;

 private:
  std::span<const part_touch> touches_at(position at) const {
    const auto i = static_cast<std::size_t>(at);
    return {touches_.data() + first_touch_[i], touches_.data() + first_touch_[i + 1]};
  }
  void append_events(position at);
  void set_transfers_of_gap(std::uint32_t x) {
    transfers_.set(x, gaps_[x],
                   transfers_of_gap(gaps_[x], decisions_[x], is_staged(gaps_[x].part), uses_.end()));
  }
  void check_recomputes() const;
  bool is_staged(part_id p) const { return (*staged_tensors_)[parts_[p].tensor]; }
  bool is_on_device(part_id p) { return states_.is_on_device(p); }
  void mark_on_device(part_id p) { states_.state_of(p) |= on_device | occupies_memory; }
  void mark_off_device(part_id p) {
    states_.state_of(p) = parts_[p].keeps_memory && !is_staged(p) ? occupies_memory : 0;
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
  const std::vector<bool>* staged_tensors_ = nullptr;
  part_states states_;
  std::vector<position> last_reader_;  // per part: the last position that reads it while it is off the device
  transfer_index transfers_;
  std::vector<event> events_;
  std::vector<part_id> required_parts_, new_parts_;
  position_set recomputes_;                         // positions to compute again before the current compute
  std::vector<std::uint64_t> search_of_recompute_;  // per position: the last search that requested it
  std::uint64_t search_count_ = 0;                  // number of searches for inputs so far
  position position_ = 0;
};

memory_plan make_plan(const graph& g, const use_table& uses, std::span<const gap> gaps,
                      std::span<const decision> decisions);

}  // namespace um
