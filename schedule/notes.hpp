// Notes of a planner on its plan.
#pragma once

#include <string>
#include <vector>

namespace um {

// Collects notes of this thread during its lifetime; with several, the latest one does.
class note_taker {
 public:
  note_taker();
  ~note_taker();
  note_taker(const note_taker&) = delete;
  note_taker& operator=(const note_taker&) = delete;

  std::vector<std::string> lines;

 private:
  note_taker* before_;
};

// One line; dropped if there is no collector.
void note(const std::string& line);

}  // namespace um
