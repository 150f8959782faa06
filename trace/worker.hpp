// A thread that runs tasks of other threads in order, without making them wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace um::tracing {

class worker {
 public:
  using task = std::function<void()>;

  // Starts the thread, with a lower priority than the program's threads.
  void start();
  void post(task work);
  // Waits until all tasks posted before are done. Must not be called by a task.
  void wait();
  // Ends the thread after all posted tasks.
  void stop();

 private:
  void run();

  std::mutex mutex_;  // guards all members except the thread
  std::condition_variable changed_;
  std::deque<task> queue_;
  std::size_t posted_ = 0, done_ = 0;  // numbers of tasks posted and finished
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace um::tracing
