// Fast estimates of time and memory for searches: no plan is verified, packed or lowered.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/device_residency.hpp"
#include "schedule/event_costs.hpp"
#include "schedule/lane_simulator.hpp"

namespace um {

// Estimates for one iteration. Times and byte totals are 0 if only memory was forecast.
struct prediction : lane_totals {
  byte_count peak = 0;           // maximum bytes alive at once, with workspaces: no packing needs less
  std::uint32_t peak_event = 0;  // index of the first event at the peak
};

// Forecasts lists of events for one order. Not thread-safe.
class forecaster {
 public:
  // Keeps references to both.
  forecaster(const problem& p, const use_table& uses) : costs_(tabulate_costs(p, uses)) {}
  forecaster(const forecaster&) = delete;
  forecaster& operator=(const forecaster&) = delete;

  // Forecasts time and memory. `events` and `staged` come from event_builder (schedule/decisions.hpp).
  prediction forecast(std::span<const event> events, const std::vector<bool>& staged);
  prediction forecast_memory(std::span<const event> events, const std::vector<bool>& staged);
  // Adds the time totals to the result of forecast_memory() for the same events, which must be the last
  // forecast.
  void add_time(std::span<const event> events, prediction& found);

  // See device_residency.
  template <class Before>
  std::span<const byte_count> live_bytes_within(std::span<const event> events,
                                                const std::vector<bool>& staged, const Before& before) {
    return residency_.live_bytes_within(events, staged, before);
  }
  // Bytes alive at each event of the last list.
  std::span<const byte_count> live_bytes() const { return residency_.live_bytes(); }

  nanoseconds compute_time(position at) const { return costs_.compute_time[static_cast<std::size_t>(at)]; }
  nanoseconds compute_time(const event& e) const { return costs_.time_of_compute(e); }
  // Time of a recomputation.
  nanoseconds recompute_time(position at) const {
    return costs_.recompute_time[static_cast<std::size_t>(at)];
  }
  nanoseconds copy_time(byte_count bytes, lane where) const {
    return um::copy_time(costs_.target, bytes, where);
  }

  // See lane_simulator. The time less that without a part's copies is their price.
  void set_waits(memory_waits how) { lanes_.set_waits(how); }
  nanoseconds time_without_copies_of(part_id p) { return lanes_.time_without_copies_of(p); }

 private:
  event_costs costs_;
  device_residency residency_{costs_};
  lane_simulator lanes_{costs_};
};

}  // namespace um
