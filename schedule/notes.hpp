// Notes that a planner attaches to its plan.
#pragma once

#include <string>
#include <vector>

namespace um {

// Collects the notes of this thread during its lifetime. Of nested collectors the innermost collects.
class note_collector {
 public:
  note_collector();
  ~note_collector();
  note_collector(const note_collector&) = delete;
  note_collector& operator=(const note_collector&) = delete;

  std::vector<std::string> lines;

 private:
  note_collector* outer_;
};

// Adds one line to the current collector, if there is one.
void add_note(const std::string& line);

}  // namespace um
