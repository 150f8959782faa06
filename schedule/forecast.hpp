// Fast estimates of time and memory for searches: no plan is verified, packed or lowered.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedule/device_residency.hpp"
#include "schedule/event_costs.hpp"
#include "schedule/lane_times.hpp"

namespace um {

struct lane_totals {
  nanoseconds time = 0;                               // time at which all lanes have finished
  nanoseconds recompute_time = 0;                     // time of recomputations
  byte_count bytes_to_device = 0, bytes_to_host = 0;  // bytes copied in each direction
  std::int64_t copy_count = 0;                        // number of copies
};

// Which earlier releases of memory an allocation waits for: only until enough memory is free, or for all of
// them. Since packing may reuse the memory of any release, a plan takes at least as long as with the first,
// and hardly ever longer than with the second.
enum class memory_waits : std::uint8_t { until_enough, for_all };

// Bytes alive over a list of events. Not used with memory_waits::for_all.
struct memory_profile {
  std::span<const byte_count> live_bytes;  // alive at each event
  byte_count peak = 0;                     // their maximum
};

// Simulates a list of events in three lanes, as simulator/execute.hpp does, with slower copies while both
// directions share the link. Waits are those that lower() finds, but addresses are unknown: an allocation
// reuses the memory that was released first, in an arena as large as the peak. Does not model managed memory.
// Keeps a reference to the costs; not thread-safe.
class lane_simulator {
 public:
  explicit lane_simulator(const event_costs& costs);

  // Stops as soon as the time is known to exceed `max_time`, and then returns some time above it.
  lane_totals simulate(std::span<const event> events, const std::vector<bool>& staged_tensors,
                       const memory_profile& memory, nanoseconds max_time);

  // Sets which releases allocations wait for in later simulations.
  void set_waits(memory_waits how) { memory_waits_ = how; }
  memory_waits waits() const { return memory_waits_; }
  // Time of the list simulated last if the copies of this part took no time. That list must have copies.
  nanoseconds time_without_copies_of(part_id p);

 private:
  // Indices of the last events that used a part which the list copies; -1: none. A stay begins when the part
  // comes to the device.
  struct copied_part {
    std::int32_t computed_in_stay = -1, fetched_in_stay = -1;
    std::int32_t read = -1, written = -1;     // last compute that read it; that wrote it
    std::int32_t evicted = -1, fetched = -1;  // last copy out; last copy in; skipped ones do not count
    bool is_host_copy_valid = false;          // the host copy has the current value
  };
  // All memory released up to and by event `event`, and the last event in each lane that released it.
  struct release {
    std::int32_t event = 0;
    byte_count bytes = 0;
    last_events by{-1, -1, -1};
  };
  void reset(std::span<const event> events, const std::vector<bool>& staged_tensors);
  void add_compute(const event& e, std::int32_t event_index);
  void add_fetch(part_id p, std::int32_t event_index);
  void add_evict(part_id p, std::int32_t event_index);
  void add_discard(part_id p);
  void end_stay(part_id p, std::int32_t evicted);
  void record_release(release added);
  void wait_for_memory(std::int32_t event_index, last_events& after) const;
  void add_step(lane where, lane_step s);

  const event_costs& costs_;
  std::vector<part_id> keeping_;  // parts of tensors that keep their memory unless they are staged
  shared_pace pace_;
  memory_waits memory_waits_ = memory_waits::until_enough;
  memory_profile memory_;
  std::vector<char> is_copied_;  // per part, as the next two: whether the list copies it
  std::vector<std::int32_t>
      last_touches_;  // the last event that touched the part in this stay, or absent, or permanent
  std::vector<copied_part> copied_parts_;
  last_events releasers_{-1, -1, -1};  // the last event in each lane that released memory
  std::vector<release> releases_;      // by event; only where allocations wait `until_enough`
  lane_totals totals_;
  lane_steps lanes_;
};

// Estimates for one iteration. Times and byte totals are 0 if only memory was forecast.
struct prediction : lane_totals {
  byte_count peak =
      0;  // maximum bytes alive at once, workspaces included: every packing needs at least as much
};

// Forecasts lists of events for one order. Not thread-safe.
class forecaster {
 public:
  // Keeps references to both arguments.
  forecaster(const problem& p, const use_table& uses)
      : costs_(tabulate_costs(p, uses)), reserved_(uses.order.size(), 0) {}
  forecaster(const forecaster&) = delete;
  forecaster& operator=(const forecaster&) = delete;

  // Forecasts time and memory. `events` and `staged_tensors` come from event_builder
  // (schedule/decisions.hpp).
  prediction forecast(std::span<const event> events, const std::vector<bool>& staged_tensors);
  prediction forecast_memory(std::span<const event> events, const std::vector<bool>& staged_tensors);
  // Adds the time totals to the result of forecast_memory() for the same events, which must be the last
  // forecast.
  void add_time(std::span<const event> events, const std::vector<bool>& staged_tensors, prediction& found) {
    static_cast<lane_totals&>(found) = forecast_time(events, staged_tensors, {live_bytes(), found.peak},
                                                     std::numeric_limits<nanoseconds>::max());
  }
  // The time totals alone (lane_simulator::simulate).
  lane_totals forecast_time(std::span<const event> events, const std::vector<bool>& staged_tensors,
                            const memory_profile& memory, nanoseconds max_time) {
    return lanes_.simulate(events, staged_tensors, memory, max_time);
  }
  bool reads_live_bytes() const { return lanes_.waits() == memory_waits::until_enough; }

  // As device_residency::live_bytes_within().
  std::span<const byte_count> live_bytes_within(std::span<const event> events,
                                                const std::vector<bool>& staged_tensors,
                                                std::span<const part_states::queried_part> touched) {
    return residency_.live_bytes_within(events, staged_tensors, touched);
  }
  byte_count joined_bytes(const std::vector<bool>& staged_tensors) const {
    return um::joined_bytes(costs_, staged_tensors);
  }
  std::span<const joined_tensors> joined() const { return costs_.joined; }
  // Bytes alive at each event of the last list.
  std::span<const byte_count> live_bytes() const { return residency_.live_bytes(); }

  // Bytes that event_list counts as alive at a position beside those that are.
  void reserve(position at, byte_count bytes) { reserved_[static_cast<std::size_t>(at)] = bytes; }
  byte_count reserved(position at) const { return reserved_[static_cast<std::size_t>(at)]; }

  nanoseconds compute_time(position at) const { return costs_.compute_time[static_cast<std::size_t>(at)]; }
  nanoseconds compute_time(const event& e) const { return costs_.time_of_compute(e); }
  // Time to recompute the position.
  nanoseconds recompute_time(position at) const {
    return costs_.recompute_time[static_cast<std::size_t>(at)];
  }
  nanoseconds copy_time(byte_count bytes, lane where) const {
    return um::copy_time(costs_.target, bytes, where);
  }

  // As in lane_simulator. The copies of a part cost the difference between the list's time and
  // time_without_copies_of().
  void set_waits(memory_waits how) { lanes_.set_waits(how); }
  nanoseconds time_without_copies_of(part_id p) { return lanes_.time_without_copies_of(p); }

 private:
  event_costs costs_;
  std::vector<byte_count> reserved_;  // per position: bytes of reserve()
  device_residency residency_{costs_};
  lane_simulator lanes_{costs_};
};

}  // namespace um
