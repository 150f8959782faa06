#include "trace/worker.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <utility>

namespace um::tracing {

void worker::start() {
  thread_ = std::thread([this] {
    constexpr int lower = 10;
    static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), lower));
    run();
  });
}

void worker::post(task work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++posted_;
  }
  changed_.notify_all();
}

void worker::wait() {
  std::unique_lock lock(mutex_);
  const std::size_t until = posted_;
  changed_.wait(lock, [&] { return done_ >= until; });
}

void worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const task next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      next();
    } catch (const std::exception&) {  // a trace with a gap is better than a program that ends
    }
    lock.lock();
    ++done_;
    if (queue_.empty()) changed_.notify_all();
  }
}

}  // namespace um::tracing
