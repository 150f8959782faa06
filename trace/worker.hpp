// One thread that does what others hand it, in their order, so that they never wait for it.
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

  // At a lower priority than the threads of the program.
  void start();
  void post(task work);
  // Until all that was posted before is done. Not from a task.
  void wait();
  // After all that was posted.
  void stop();

 private:
  void run();

  std::mutex guard_;  // of all but the thread
  std::condition_variable changed_;
  std::deque<task> waiting_;
  std::size_t posted_ = 0, done_ = 0;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace um::tracing
