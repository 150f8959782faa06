// What a planner tells while it plans: notes that it attaches to its plan, and its best plan so far.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace um {

// Collects the notes of this thread during its lifetime. Of nested collectors the innermost collects.
class note_collector {
 public:
  note_collector();
  ~note_collector();
  note_collector(const note_collector&) = delete;
  note_collector& operator=(const note_collector&) = delete;

  std::vector<std::string> lines;  // collected so far

 private:
  note_collector* outer_;
};

// Adds one line to the current collector, if there is one.
void add_note(const std::string& line);

// Hears, during its lifetime, the time of each plan of this thread that is the best so far.
class best_listener {
 public:
  explicit best_listener(std::function<void(nanoseconds)> hear);
  ~best_listener();
  best_listener(const best_listener&) = delete;
  best_listener& operator=(const best_listener&) = delete;

 private:
  friend void tell_best(nanoseconds time);
  std::function<void(nanoseconds)> on_best_;
  best_listener* outer_;
};

// Tells the innermost listener, if there is one.
void tell_best(nanoseconds time);

}  // namespace um
