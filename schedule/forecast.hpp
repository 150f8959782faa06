// Fast estimates of time and memory for searches: no plan is verified, packed or lowered.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/device_residency.hpp"
#include "schedule/event_costs.hpp"

namespace um {

// Simulates a list of events in three lanes: kernels, copies to the device and copies to the host.

// One event of a lane. It begins when the events of other lanes that it waits for have ended.
struct lane_step {
  std::uint32_t event = 0;
  nanoseconds time_alone = 0;  // duration if no other copy shares the link
  part_id copied_part = 0;     // of a copy
  last_events waits_for{-1, -1, -1};
};
using lane_steps = std::array<std::vector<lane_step>, lane_count>;

struct lane_totals {
  nanoseconds time = 0;                               // when all lanes have finished
  nanoseconds recompute_time = 0;                     // time of recomputations
  byte_count bytes_to_device = 0, bytes_to_host = 0;  // bytes copied in each direction
  std::int64_t copy_count = 0;                        // number of copies
};

// Which events that released memory before it an allocation waits for. Packing may reuse any of it: plans
// take at least as long as with the first, and hardly ever longer than with the second.
enum class memory_waits : std::uint8_t { until_enough, for_all };

// Models lanes as simulator/execute.hpp does, with slower copies where they share the link. Waits are those
// that lower() finds, except that addresses are unknown: an allocation reuses the memory that was released
// first, in an arena as large as the peak. Does not model managed memory. Keeps a reference to the costs; not
// thread-safe.
class lane_simulator {
 public:
  explicit lane_simulator(const event_costs& costs);

  // `residency` must have replayed these events, with that peak.
  lane_totals simulate(std::span<const event> events, const device_residency& stays, byte_count peak);

  // Sets the releases that later allocations wait for.
  void set_waits(memory_waits how) { waits_ = how; }
  // Time of the last list that was simulated, if copies of the part took none. That list must have copies.
  nanoseconds time_without_copies_of(part_id p);

 private:
  struct copy_users {  // users of one copy of a part (device or host): its last readers and writers
    last_events last_reads{-1, -1, -1}, last_writes{-1, -1, -1};
  };
  void record_releases(const device_residency& stays);
  void make_steps(std::span<const event> events, const device_residency& stays, byte_count peak,
                  lane_totals& found);
  void wait_for_memory(std::uint32_t at, const device_residency& stays, byte_count peak,
                       last_events& after) const;

  const event_costs& costs_;
  std::int64_t pace_to_device_ = 1000,
               pace_to_host_ =
                   1000;  // speed of copies that run in both directions at once, in thousandths of full speed
  memory_waits waits_ = memory_waits::until_enough;
  std::vector<char> is_copied_,
      is_home_valid_;  // per part, as the next two: whether the list copies it; whether its host copy is
                       // valid
  std::vector<copy_users> users_on_device_, users_on_host_;
  std::vector<byte_count> released_bytes_;  // per event: bytes released up to it, inclusive
  std::vector<last_events> releasers_;      // per event: the last events that released memory by then
  lane_steps lanes_;
};

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
  void add_time(std::span<const event> events, prediction& found) {
    static_cast<lane_totals&>(found) = lanes_.simulate(events, residency_, found.peak);
  }

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
