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
  byte_count replay(std::span<const event> events, const std::vector<bool>& staged_tensors);

  // Replays the events of one position. Returns the bytes alive at each event, less those alive before the
  // first, modulo 2^64. `touched`: the parts that the events touch, perhaps others, with their states before
  // the position. The result is valid until the next call of any member.
  std::span<const byte_count> live_bytes_within(std::span<const event> events,
                                                const std::vector<bool>& staged_tensors,
                                                std::span<const part_states::queried_part> touched);

  // Bytes alive at each event of the last replay().
  std::span<const byte_count> live_bytes() const { return live_bytes_; }

 private:
  static constexpr std::uint32_t no_event = ~std::uint32_t{0};
  enum class presence : std::uint8_t { absent, present, permanent };
  struct part_residency {
    std::uint32_t last_touch = 0;            // last event that touched it since it came to the device
    std::uint32_t last_in_place = no_event;  // last event whose output reused its memory
    presence state = presence::absent;
  };
  struct in_place_output {    // an output that reuses the memory of an input
    std::uint32_t event = 0;  // index of the event that computes it
    byte_count bytes = 0;
  };
  void reset(std::size_t events, const std::vector<bool>& staged_tensors);
  void apply(std::span<const event> events);
  void apply_compute(const event& e, std::uint32_t event_index);
  void touch_part(part_id p, std::uint32_t event_index);
  void remove_part(part_id p, std::uint32_t end);
  byte_count sum_live_bytes(std::span<const event> events);

  const event_costs& costs_;
  std::vector<part_residency> parts_;  // per part
  std::vector<in_place_output> in_place_outputs_;
  byte_count permanent_bytes_ = 0;  // bytes of parts that never leave the device
  std::vector<byte_count>
      live_bytes_;  // until sum_live_bytes(): change of the bytes alive at each event, modulo 2^64
};

}  // namespace um
