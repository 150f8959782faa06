// Which parts are on the device during a list of events, and how many bytes are alive at each event.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/event_costs.hpp"

namespace um {

// Keeps a reference to the costs. Reuses its buffers between lists; not thread-safe.
class device_residency {
 public:
  explicit device_residency(const event_costs& costs);

  // Replays the events. Returns the maximum number of bytes alive at once.
  byte_count replay(std::span<const event> events, const std::vector<bool>& staged);

  // Replays the events of one position. Returns the bytes alive at each event, less those alive before the
  // first, modulo 2^64. `before`: returns the state of a part before the position. The result is valid until
  // the next call of any member.
  template <class Before>
  std::span<const byte_count> live_bytes_within(std::span<const event> events,
                                                const std::vector<bool>& staged, const Before& before) {
    const auto meet = [&](part_id x) {
      const planned_part& part = costs_.parts[x];
      presence_[x] = part.persists && !staged[part.tensor] ? presence::permanent
                     : (before(x) & on_device) != 0        ? presence::present
                                                           : presence::absent;
      last_touch_[x] = last_in_place_[x] = no_event;
    };
    for (const event& e : events) {
      if (e.kind != event_kind::compute) {
        meet(e.subject);
        continue;
      }
      for (const touched_part& x : costs_.touches_of(e)) meet(x.part);
    }
    return replay_position(events);
  }

  // Bytes alive at each event of the last replay().
  std::span<const byte_count> live_bytes() const { return live_bytes_; }

 private:
  enum class presence : std::uint8_t { absent, present, permanent };
  struct in_place_output {    // an output that reuses the memory of an input
    std::uint32_t event = 0;  // index of the event that computes it
    byte_count bytes = 0;
  };
  static constexpr std::uint32_t no_event = ~std::uint32_t{0};
  std::span<const byte_count> replay_position(std::span<const event> events);
  void reset(std::size_t events, const std::vector<bool>& staged);
  void apply(std::span<const event> events);
  void apply_compute(const event& e, std::uint32_t at);
  void touch_part(part_id p, std::uint32_t at);
  void remove_part(part_id p, std::uint32_t end);
  byte_count sum_live_bytes(std::span<const event> events);

  const event_costs& costs_;
  std::vector<presence> presence_;            // per part, as the next two
  std::vector<std::uint32_t> last_touch_;     // last event that touched the part since it came to the device
  std::vector<std::uint32_t> last_in_place_;  // last event whose output reused the part's memory
  std::vector<in_place_output> in_place_outputs_;
  byte_count permanent_bytes_ = 0;  // bytes of parts that never leave the device
  std::vector<byte_count>
      live_bytes_;  // until sum_live_bytes(): change of the bytes alive at each event, modulo 2^64
};

}  // namespace um
