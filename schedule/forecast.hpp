// Time and memory of decisions without proving, packing or lowering a plan: for searches, which ask for
// thousands of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/device_stays.hpp"
#include "schedule/event_costs.hpp"
#include "schedule/lane_times.hpp"

namespace um {

// Of an iteration; the totals are 0 if only memory was asked for.
struct prediction : lane_totals {
  byte_count peak = 0;   // most bytes alive at once, workspaces included: no packing needs less
  std::uint32_t at = 0;  // index of the first event at the peak
};

// Forecasts lists of events of one order. Not to be used by two threads at once.
class forecaster {
 public:
  // Refers to both.
  forecaster(const problem& p, const use_table& uses) : costs_(tabulate(p, uses)) {}
  forecaster(const forecaster&) = delete;
  forecaster& operator=(const forecaster&) = delete;

  // Forecasts time and memory. `events` and `staged` as schedule/decisions.hpp makes them.
  prediction of(std::span<const event> events, const std::vector<bool>& staged);
  prediction memory_of(std::span<const event> events, const std::vector<bool>& staged);
  // Adds the totals to what memory_of() said of the same events just now.
  void add_time(std::span<const event> events, prediction& found);

  // As device_stays says.
  template <class Before>
  std::span<const byte_count> live_within(std::span<const event> events, const std::vector<bool>& staged,
                                          const Before& before) {
    return stays_.live_within(events, staged, before);
  }
  // Bytes alive at each event of the list that was asked for last.
  std::span<const byte_count> live() const { return stays_.live(); }

  nanoseconds time_of(position at) const { return costs_.time[static_cast<std::size_t>(at)]; }
  nanoseconds time_of(const event& e) const { return costs_.time_of(e); }
  // When it is computed again.
  nanoseconds time_again(position at) const { return costs_.time_again[static_cast<std::size_t>(at)]; }
  nanoseconds time_of_copy(byte_count bytes, lane where) const {
    return um::time_of_copy(costs_.on, bytes, where);
  }

  // As lane_times says. A transfer's price is the difference between forecasts with and without its time.
  void expect_the_worst() { lanes_.expect_the_worst(); }
  void let_travel_free(part_id p, bool free) { lanes_.let_travel_free(p, free); }

 private:
  event_costs costs_;
  device_stays stays_{costs_};
  lane_times lanes_{costs_};
};

}  // namespace um
