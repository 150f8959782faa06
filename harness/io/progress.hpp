// Shows that a command still works: a line on standard error after two seconds, then at growing intervals.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace um {

class progress {
 public:
  // `text`: "planning" prints "umbench: planning, 5 s so far".
  explicit progress(std::string task);
  // The next lines say this, too: "umbench: planning, 3 of 20 done, 5 s so far".
  void note(std::string news) { news_ = std::move(news); }
  // Prints the line if it is due; cheap otherwise.
  void tick();

 private:
  std::string text_, news_;
  std::chrono::steady_clock::time_point start_time_;
  std::chrono::seconds next_print_{2};
};

// Prints progress from a thread of its own until it is destroyed. Only for processes that start no others.
class progress_thread {
 public:
  explicit progress_thread(std::string task);
  // See progress::note. Any thread may call it.
  void note(std::string news);

 private:
  std::mutex lines_mutex_;  // for lines_
  progress lines_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace um
