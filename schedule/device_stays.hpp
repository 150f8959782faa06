// When parts are on the device while a list of events runs, and how many bytes are alive at each event.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/event_costs.hpp"

namespace um {

// Per lane, an event; -1: none.
using last_events = std::array<std::int32_t, lane_count>;
void merge(last_events& into, const last_events& from);

// A part's stay on the device ended before event `end`.
struct departure {
  part_id which = 0;
  std::uint32_t end = 0;
  last_events by_lane{-1, -1, -1};  // the last that touched it
};

// Refers to the costs. Keeps its memory between lists; not to be used by two threads at once.
class device_stays {
 public:
  explicit device_stays(const event_costs& costs);

  // Follows the events; the highest number of bytes alive at once.
  byte_count follow(std::span<const event> events, const std::vector<bool>& staged);

  // Of the events of one position alone: bytes alive at each minus bytes alive before the first, modulo 2^64.
  // `before`: the state of a part there. Until the next call of anything.
  template <class Before>
  std::span<const byte_count> live_within(std::span<const event> events, const std::vector<bool>& staged,
                                          const Before& before) {
    const auto meet = [&](part_id x) {
      const forecast_part& part = costs_.parts[x];
      presence_[x] = part.persists && !staged[part.what] ? presence::always
                     : (before(x) & on_device) != 0      ? presence::here
                                                         : presence::away;
      touched_[x] = {-1, -1, -1};
      may_take_over_[x] = no_event;
    };
    for (const event& e : events) {
      if (e.what != verb::compute) {
        meet(e.which);
        continue;
      }
      for (const touched_part& x : costs_.touches_of(e)) meet(x.which);
    }
    return follow_alone(events);
  }

  // All of the list that was followed last; per event.
  std::span<const byte_count> live() const { return live_; }
  bool takes_room(std::uint32_t at) const { return opens_[at] != 0; }
  bool copies() const { return copies_; }  // it makes some
  // Where copies are made.
  std::span<const departure> departures() const { return departures_; }

 private:
  enum class presence : std::uint8_t { away, here, always };
  struct takeover {  // an output that is computed in place of an input, at event `at`
    std::uint32_t at = 0;
    byte_count bytes = 0;
  };
  static constexpr std::uint32_t no_event = ~std::uint32_t{0};
  std::span<const byte_count> follow_alone(std::span<const event> events);
  void begin(std::size_t events, const std::vector<bool>& staged);
  void visit(std::span<const event> events);
  void compute(const event& e, std::uint32_t at);
  void touch(part_id p, std::uint32_t at, lane by);
  std::uint32_t last_touch(part_id p) const;
  void leave(part_id p, std::uint32_t end);
  byte_count add_up(std::span<const event> events);

  const event_costs& costs_;
  bool copies_ = false;                       // the list makes copies
  std::vector<presence> presence_;            // per part, as are the next two
  std::vector<last_events> touched_;          // in its stay, or its last one
  std::vector<std::uint32_t> may_take_over_;  // the last event at which another was computed in its place
  std::vector<departure> departures_;
  std::vector<takeover> takeovers_;
  byte_count always_ = 0;         // bytes of parts that stay on the device throughout
  std::vector<byte_count> live_;  // until add_up(): what each event adds or, modulo 2^64, takes away
  std::vector<char> opens_;       // per event: whether it takes memory
};

}  // namespace um
