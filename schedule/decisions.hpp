// Decisions for every gap, and how a plan follows from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/part_states.hpp"
#include "schedule/uses.hpp"

namespace um {

enum class choice : std::uint8_t {
  keep,   // the part stays
  swap,   // it leaves for its home behind `leave` and comes back before `back`
  again,  // it is given up behind its last use and computed again when something needs it
};

// For one gap. Positions outside it count as its ends.
struct decision {
  choice what = choice::keep;
  position leave = 0;  // swap: the position behind which it leaves
  // The position before which it comes back (swap), or from which on it stays once it was computed again
  // (again). Whatever is brought back earlier, since something is computed again from it, is given up
  // again behind that.
  position back = 0;
  friend bool operator==(const decision&, const decision&) = default;
};

// Everything a plan does, compactly: what is not `compute` concerns a part.
enum class verb : std::uint8_t { compute, prefetch, evict, discard };
struct event {
  verb what = verb::compute;
  std::uint32_t which = 0;  // compute: a position of the order; else a part
  bool again = false;       // compute: a recomputation
  friend bool operator==(const event&, const event&) = default;
};

// Tensors with residence `staged`: a part of them is swapped in some gap. The rest lies on the device.
std::vector<bool> staged_tensors(const use_table& uses, std::span<const gap> gaps,
                                 std::span<const decision> decisions);

// One decision for each gap, as gaps_of() gives them. What is needed where it is not is fetched or computed
// again first, and so, recursively, what that is computed from. A staged tensor that starts at home is
// fetched at the start where its decision says nothing else, and one that must be kept leaves at the end.
// Throws std::invalid_argument where `again` or `swap` is decided for what cannot.
std::vector<event> events_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                             std::span<const decision> decisions);

// When the part of a gap comes back, before that position, and when it leaves, behind that; -1: it does not.
struct moves_of_gap {
  position back = -1, leave = -1;
};
// `staged`: its tensor is. `end`: the order's size.
moves_of_gap moves_of(const gap& e, const decision& d, bool staged, position end);

// What comes back before each position and leaves behind it.
class transfer_index {
 public:
  struct transfer {
    position at = 0, next_use = 0;
    std::uint32_t which = 0;  // of those that come back the part, of those that leave the gap
  };
  // What comes back before the same position, in the order of its next use.
  void set(const use_table& uses, std::span<const gap> gaps, std::span<const std::uint32_t> first_gap,
           std::span<const decision> decisions, const std::vector<bool>& staged);
  auto back_before(position at) const { return std::ranges::equal_range(back_, at, {}, &transfer::at); }
  auto leaving_behind(position at) const { return std::ranges::equal_range(leave_, at, {}, &transfer::at); }

 private:
  std::vector<transfer> back_, leave_;
};

// The same for searches, which ask again and again. Refers to all three.
class event_builder {
 public:
  event_builder(const graph& g, const use_table& uses, std::span<const gap> gaps);

  // With discards of what nothing touches afterwards. Until the next call; `staged` as staged_tensors() says.
  std::span<const event> build(std::span<const decision> decisions, const std::vector<bool>& staged);

  // --- the same position by position ---
  // Decisions to go by from now on. Refers to them.
  void set(std::span<const decision> decisions, const std::vector<bool>& staged);
  part_state initial(part_id p, bool staged) const;
  part_states& states() { return states_; }
  // The events of a position, until the next call.
  std::span<const event> step(position at);
  // Gaps of a part: [gaps_of(p), gaps_of(p + 1)).
  std::uint32_t gaps_of(part_id p) const { return first_gap_[p]; }
  // The gap in which the part is right behind or before a position; none: it is in none.
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::uint32_t gap_behind(part_id p, position at) const;
  std::uint32_t gap_before(part_id p, position at) const { return gap_behind(p, at - 1); }

 private:
  struct part_facts {
    tensor_id what = 0;
    bool persists = false;
    position producer = -1;  // the first that writes it; -1: none
  };
  struct touch {
    part_id which = 0;
    access_mode mode = access_mode::read;
    bool dies = false;         // its last use, after which the part can be discarded
    std::uint32_t gap = none;  // the one that begins here
  };
  std::span<const touch> touches_at(position at) const {
    const auto i = static_cast<std::size_t>(at);
    return {touches_.data() + first_touch_[i], touches_.data() + first_touch_[i + 1]};
  }
  void make_events(position at);
  void check() const;
  [[noreturn]] void refuse(const gap& e, const std::string& how) const;
  bool is_here(part_id p) { return states_.is_here(p); }
  void arrives(part_id p) { states_.of(p) |= on_device | takes_room; }
  void goes(part_id p);
  void fetch(part_id p);
  void evict_now(part_id p);
  void discard_now(part_id p);
  void compute_now(position at, bool again, const auto& touches);
  void bring_inputs(position at);
  void need(part_id p, position reader);
  void fetch_inputs(const auto& touches);
  void give_up_again(part_id p);
  void use_ends(const touch& x);

  const graph& g_;
  const use_table& uses_;
  std::span<const gap> gaps_;
  std::vector<part_facts> parts_;
  std::vector<std::uint32_t> first_gap_;    // per part, and one past the last
  std::vector<touch> touches_;              // by position
  std::vector<std::uint32_t> first_touch_;  // per position, and one past the last
  std::span<const decision> decisions_;
  const std::vector<bool>* staged_ = nullptr;
  part_states states_;
  std::vector<position> reader_;  // per part: the last position that reads it while it is off the device
  transfer_index transfers_;
  std::vector<event> events_;
  std::vector<part_id> needed_, made_;
  std::vector<position> runs_;           // to compute again before the current compute
  std::vector<std::uint64_t> runs_for_;  // per position: the search for inputs that asked for it last
  std::uint64_t searches_ = 0;           // for inputs
  position now_ = 0;
};

memory_plan plan_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                    std::span<const decision> decisions);

}  // namespace um
