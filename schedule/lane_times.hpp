// The time of a list of events in three lanes: kernels, copies to the device and copies to the host.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/device_stays.hpp"

namespace um {

// One event of a lane. It begins when the events of other lanes that it waits for are over.
struct lane_step {
  std::uint32_t event = 0;
  nanoseconds alone = 0;  // time without other transfers
  last_events after{-1, -1, -1};
};
using lane_steps = std::array<std::vector<lane_step>, lane_count>;

struct lane_totals {
  nanoseconds time = 0;                   // until all lanes are done
  nanoseconds again = 0;                  // time of recomputations
  byte_count to_device = 0, to_host = 0;  // bytes copied
  std::int64_t copies = 0;                // how many copies
};

// Lanes as in simulator/execute.hpp, transfers slowed where they share the link, with the hazards that
// lower() finds, except those of addresses: a part takes the room that was given up first, in an arena as
// large as the peak. Managed memory does not occur. Refers to the costs; not to be used by two threads at
// once.
class lane_times {
 public:
  explicit lane_times(const event_costs& costs);

  // `stays`: has followed these events, with that peak.
  lane_totals of(std::span<const event> events, const device_stays& stays, byte_count peak);

  // From now on whatever takes room waits for all who gave some up before it: packing may give it any of
  // theirs.
  void expect_the_worst() { assume_worst_ = true; }
  // Whether copies of a part take no time, from now on.
  void let_travel_free(part_id p, bool free) { free_[p] = free; }

 private:
  struct user {  // of a copy of a part: the last events that read and wrote it
    last_events read{-1, -1, -1}, write{-1, -1, -1};
  };
  void note_room_given_up(const device_stays& stays);
  void make_steps(std::span<const event> events, const device_stays& stays, byte_count peak,
                  lane_totals& found);
  void wait_for_room(std::uint32_t at, const device_stays& stays, byte_count peak, last_events& after) const;

  const event_costs& costs_;
  std::int64_t pace_in_ = 1000, pace_out_ = 1000;  // speed of copies, in thousandths, while they go both ways
  bool assume_worst_ = false;                      // expect_the_worst() was called
  std::vector<bool> free_;                         // per part, as are the next four: its copies take no time
  std::vector<char> copied_, at_home_;             // the list copies it; its home holds a valid copy
  std::vector<user> users_on_device_, users_at_home_;
  std::vector<byte_count> given_up_;    // per event: bytes released up to and including it
  std::vector<last_events> releasers_;  // per event: the last events that released memory by then
  lane_steps lanes_;
};

}  // namespace um
