// Launches of kernels: assigns movements to them and writes their lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/bins.hpp"
#include "trace/line_writer.hpp"
#include "trace/records.hpp"

namespace um::tracing {

struct launch {
  nanoseconds begin = 0, end = 0;
  std::uint32_t gpu = 0, stream = 0, name = 0;
  std::uint64_t number = 0;  // counts the launches of that name on that GPU
  bin moved;                 // what its faults moved
};

// Sums launches and copies that get no line of their own, a second of a GPU at a time.
class summed_launches {
 public:
  explicit summed_launches(line_writer& to) : writer_(to) {}
  // `counted`: Unified Memory was counted during the launch, so it is known to have moved nothing.
  void add(const launch& l, bool counted);
  void add(const copy& c);
  void finish();

 private:
  struct total {
    std::uint64_t count = 0, bytes = 0;
    nanoseconds busy = 0;  // sum of their durations
    void add(std::uint64_t more, nanoseconds time);
  };
  struct time_slice {
    nanoseconds begin = 0, end = 0;
    std::map<std::uint32_t, total> kernels;  // by name
    std::map<std::string, total> copies;     // by way
  };
  using key = std::pair<std::uint32_t, bool>;  // GPU, counted

  time_slice& at(key of, nanoseconds begin, nanoseconds end);
  void write(key of, time_slice& s);

  line_writer& writer_;
  std::map<key, time_slice> slices_;
};

class launch_table {
 public:
  explicit launch_table(line_writer& to) : writer_(to), summed_(to) {}

  void add(const kernel& k);
  void add(const copy& c) { summed_.add(c); }
  // The number of the next launch of that name on that GPU.
  std::uint64_t next_number(std::uint32_t gpu, std::uint32_t name) { return next_numbers_[{gpu, name}]++; }
  // Between the two calls Unified Memory is not counted, so launches may move data without a record.
  void counting_paused(nanoseconds from);
  void counting_resumed(nanoseconds from);

  void sort();
  // Adds an event to the last launch that had begun and not ended; false if there is none. Needs sort().
  bool add_to_launch(const event& e);
  // Whether a launch that moved something began after `after` and not later than `until`. Needs sort().
  bool has_moving_launch_between(nanoseconds after, nanoseconds until) const;
  // Writes and forgets those that ended before.
  void write(nanoseconds before);
  void finish();

 private:
  launch* find(const event& e);
  bool was_counted(const launch& l) const;

  line_writer& writer_;
  summed_launches summed_;
  std::map<std::uint32_t, std::vector<launch>> by_gpu_;
  std::vector<nanoseconds> begins_of_moving_launches_;  // begins of launches that moved something
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> next_numbers_;  // by GPU and name
  std::vector<std::pair<nanoseconds, nanoseconds>> uncounted_;  // when nothing was counted; end 0: still
};

}  // namespace um::tracing
