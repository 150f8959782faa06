// Tells that a command still works: a line on standard error after two seconds, then at growing distances.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace um {

class progress {
 public:
  // "planning": says "umbench: planning, 5 s so far".
  explicit progress(std::string what);
  // The next lines say this, too: "umbench: planning, 3 of 20 done, 5 s so far".
  void note(std::string news) { news_ = std::move(news); }
  // Prints the line if it is due; cheap otherwise.
  void tick();

 private:
  std::string what_, news_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::seconds next_{2};
};

// A thread that reports progress until it is destroyed. Only for processes that start no others.
std::jthread ticking(std::string what);

}  // namespace um
