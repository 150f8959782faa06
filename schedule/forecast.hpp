// Time and memory of decisions without proving, packing or lowering a plan: for searches, which ask for
// thousands of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/trace.hpp"
#include "schedule/decisions.hpp"

namespace um {

struct prediction {
  nanoseconds time = 0;   // of an iteration; 0 where only memory was asked for
  byte_count peak = 0;    // of what is alive at once, workspaces included: no packing needs less
  std::uint32_t at = 0;   // the first event at the peak
  nanoseconds again = 0;  // of the time: what is computed again
  byte_count to_device = 0, to_host = 0;  // bytes copied
  std::int64_t copies = 0;                // how many copies
};

// What a whole operator takes when it is computed again: where it takes something from the first time, the
// less of both ways.
nanoseconds time_again(const problem& p, op_id what);

// Per lane, an event; -1: none.
using last_events = std::array<std::int32_t, lane_count>;
// What a lane does, when the events of other lanes that it waits for are over.
struct lane_step {
  std::uint32_t event = 0;
  nanoseconds alone = 0;
  last_events after{-1, -1, -1};
};
using lane_steps = std::array<std::vector<lane_step>, lane_count>;

// Three lanes as in simulator/execute.hpp, transfers slowed where they share the link, with the hazards that
// lower() finds, but for addresses: room is taken from whoever gave it up first, in an arena as large as
// the peak. Managed memory does not occur. Not to be used by two threads at once.
class forecaster {
 public:
  // Refers to both. Asks cost_of() once for every position, and for its repetition if that is another
  // operator.
  forecaster(const problem& p, const use_table& uses);

  // `events` and `staged` as schedule/decisions.hpp makes them.
  prediction of(std::span<const event> events, const std::vector<bool>& staged);
  prediction memory_of(std::span<const event> events, const std::vector<bool>& staged);
  // To what memory_of() said of the same events just now, the rest.
  void add_time(std::span<const event> events, prediction& found);

  // Of the events of one position alone: what is alive at each beside what was before the first, modulo
  // 2^64. `before`: the state of a part there; `staged` as above. Until the next call of anything.
  template <class Before>
  std::span<const byte_count> live_within(std::span<const event> events, const std::vector<bool>& staged,
                                          const Before& before) {
    const auto meet = [&](part_id x) {
      presence_[x] = part_facts_[x].persists && !staged[part_facts_[x].what] ? presence::always
                     : (before(x) & on_device) != 0                          ? presence::here
                                                                             : presence::away;
      touched_[x] = {-1, -1, -1};
      may_take_over_[x] = no_event;
    };
    for (const event& e : events) {
      if (e.what != verb::compute) {
        meet(e.which);
        continue;
      }
      for (const touched_part& x : touches_of(e)) meet(x.which);
    }
    return follow_alone(events);
  }

  // Bytes alive at each event of the list that was asked for last.
  std::span<const byte_count> live() const { return live_; }
  nanoseconds time_of(position at) const { return time_[static_cast<std::size_t>(at)]; }
  nanoseconds time_of(const event& e) const { return e.again ? time_again_[e.which] : time_[e.which]; }
  // When it is computed again.
  nanoseconds time_again(position at) const { return time_again_[static_cast<std::size_t>(at)]; }
  nanoseconds time_of_copy(byte_count bytes, lane where) const;

  // From now on whatever takes room waits for all who gave some up before it: packing may give it any of
  // theirs.
  void expect_the_worst() { worst_ = true; }

  // From now on copies of a part take no time, or what they take: what a transfer costs is the difference.
  void let_travel_free(part_id p, bool free) { free_[p] = free; }

 private:
  enum class presence : std::uint8_t { away, here, always };
  struct departure {  // a part's stay on the device ended before event `end`
    part_id which = 0;
    std::uint32_t end = 0;
    last_events by_lane{-1, -1, -1};  // the last that touched it
  };
  struct takeover {  // at an event, a part's place became another's of as many bytes
    std::uint32_t at = 0;
    byte_count bytes = 0;
  };
  struct user {  // of a copy of a part: the last events that read and wrote it
    last_events read{-1, -1, -1}, write{-1, -1, -1};
  };
  struct facts {
    byte_count bytes = 0;
    tensor_id what = 0;
    bool persists = false, survives = false;
  };
  std::span<const touched_part> touches_at(std::uint32_t at) const {
    return {touches_.data() + first_touch_[at], touches_.data() + first_touch_[at + 1]};
  }
  std::span<const touched_part> touches_of(const event& e) const {
    return e.again ? uses_.touched_again(static_cast<position>(e.which)) : touches_at(e.which);
  }
  static constexpr std::uint32_t no_event = ~std::uint32_t{0};
  std::span<const byte_count> follow_alone(std::span<const event> events);
  void find_stays(std::span<const event> events, const std::vector<bool>& staged);
  void follow(std::span<const event> events);
  void compute(const event& e, std::uint32_t at);
  void touch(part_id p, std::uint32_t at, lane by);
  std::uint32_t last_touch(part_id p) const;
  void leave(part_id p, std::uint32_t end);
  byte_count add_up(std::span<const event> events);
  void note_room_given_up();
  void make_steps(std::span<const event> events, byte_count peak, prediction& found);
  void wait_for_room(std::uint32_t at, byte_count peak, last_events& after) const;

  const problem& p_;
  const use_table& uses_;
  std::vector<nanoseconds> time_, time_again_;  // per position, as are the next four
  std::vector<byte_count> workspace_, workspace_again_;
  std::vector<std::pair<part_id, part_id>> in_place_;  // the same twice: nothing is computed in place
  std::int64_t pace_in_ = 1000, pace_out_ = 1000;      // thousandths, while copies go both ways
  std::vector<facts> part_facts_;                      // per part
  std::vector<touched_part> touches_;                  // by position
  std::vector<std::uint32_t> first_touch_;             // per position, and one past the last
  std::vector<bool> free_;                             // per part
  bool worst_ = false;
  bool copies_ = false;                       // the list that was asked for last makes some
  std::vector<presence> presence_;            // per part, as are the next four
  std::vector<last_events> touched_;          // in its stay, or its last one
  std::vector<std::uint32_t> may_take_over_;  // the last event at which another was computed in its place
  std::vector<char> copied_, at_home_;        // of what is copied: a valid copy at home
  std::vector<user> users_on_device_, users_at_home_;
  std::vector<departure> departures_;  // where copies are made
  std::vector<takeover> takeovers_;
  byte_count always_ = 0;                    // of parts that are there all the time
  std::vector<byte_count> live_, given_up_;  // per event; given_up_: in all, up to and with it
  std::vector<last_events> givers_;          // per event: the last that gave something up by then
  std::vector<char> opens_;                  // per event: takes room
  lane_steps lanes_;
};

}  // namespace um
