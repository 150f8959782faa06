// One thread that runs tasks of others in order; they do not wait for it.
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

  // Its thread has a lower priority than the program's.
  void start();
  void post(task work);
  // Waits until all tasks posted before are done. Must not be called by a task.
  void wait();
  // Ends the thread after all posted tasks.
  void stop();

 private:
  void run();

  std::mutex mutex_;  // guards everything but the thread
  std::condition_variable changed_;
  std::deque<task> queue_;
  std::size_t posted_ = 0, done_ = 0;  // numbers of tasks
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace um::tracing
