// What happens in every gap, and the one way from there to a plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
  bool again = false;       // compute: it was there before
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

// The same for searches, which ask again and again. Refers to all three.
class event_builder {
 public:
  event_builder(const graph& g, const use_table& uses, std::span<const gap> gaps);

  // With discards of what nothing touches afterwards. Until the next call; `staged` as staged_tensors() says.
  std::span<const event> build(std::span<const decision> decisions, const std::vector<bool>& staged);

 private:
  struct part_facts {
    tensor_id what = 0;
    bool persists = false;
    position producer = -1;  // the first that writes it; -1: none
    std::uint32_t first_gap = 0;
  };
  struct touch {
    part_id which = 0;
    access_mode mode = access_mode::read;
    bool dies = false;      // its last use, and nobody is to find it later
    std::uint32_t gap = 0;  // the one that begins here
  };
  struct state {
    bool home = false, staged = false;  // a valid copy at home
    position reader = -1;               // the last that needs it while it is not there
    std::uint32_t now_in = 0;           // the gap it is in
  };
  struct transfer {
    position at = 0, next_use = 0;
    std::uint32_t which = 0;  // of those that come back the part, of those that leave the gap
  };

  std::span<const touch> touches_at(position at) const {
    const auto i = static_cast<std::size_t>(at);
    return {touches_.data() + first_touch_[i], touches_.data() + first_touch_[i + 1]};
  }
  void index_transfers();
  [[noreturn]] void refuse(const gap& e, const std::string& how) const;
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
  std::vector<touch> touches_;              // by position
  std::vector<std::uint32_t> first_touch_;  // per position, and one past the last
  std::span<const decision> decisions_;
  std::vector<state> state_;  // per part
  std::vector<char> here_;    // per part: on the device; apart, since every use asks
  std::vector<transfer> back_, leave_;
  std::vector<event> events_;
  std::vector<part_id> needed_, made_;
  std::vector<position> runs_;      // to compute again before the compute at hand
  std::vector<position> runs_for_;  // per position: the compute before which it was asked for last
  position now_ = 0;
};

memory_plan plan_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                    std::span<const decision> decisions);

}  // namespace um
