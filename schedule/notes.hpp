// What a planner has to say of its plan beside the plan.
#pragma once

#include <string>
#include <vector>

namespace um {

// Hears what is noted on this thread while it lives; of several, the youngest does.
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

// One line; nobody may listen.
void note(const std::string& line);

}  // namespace um
