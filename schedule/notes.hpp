// What a planner reports while it plans: notes for its plan, and the time of its best plan so far.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace um {

// Collects the notes of this thread during its lifetime. If collectors are nested, the innermost one
// collects.
class note_collector {
 public:
  note_collector();
  ~note_collector();
  note_collector(const note_collector&) = delete;
  note_collector& operator=(const note_collector&) = delete;

  std::vector<std::string> lines;  // notes collected so far

 private:
  note_collector* outer_;
};

// Adds one line to the current collector, if there is one.
void add_note(const std::string& line);

// During its lifetime, calls a function with the time of each new best plan of this thread.
class best_time_listener {
 public:
  explicit best_time_listener(std::function<void(nanoseconds)> on_best);
  ~best_time_listener();
  best_time_listener(const best_time_listener&) = delete;
  best_time_listener& operator=(const best_time_listener&) = delete;

 private:
  friend void report_best_time(nanoseconds time);
  std::function<void(nanoseconds)> on_best_;
  best_time_listener* outer_;
};

// Reports the time of a new best plan to the innermost listener, if there is one.
void report_best_time(nanoseconds time);

}  // namespace um
