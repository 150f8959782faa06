#include "harness/io/progress.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "harness/io/say.hpp"

namespace um {

progress::progress(std::string what) : what_(std::move(what)), begin_(std::chrono::steady_clock::now()) {}

void progress::tick() {
  constexpr std::chrono::seconds longest{60};
  const auto since =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin_);
  if (since < next_) return;
  say("umbench: {}{}{}, {} s so far\n", what_, news_.empty() ? "" : ", ", news_, since.count());
  next_ = since + std::min(2 * next_, longest);
}

std::jthread ticking(std::string what) {
  return std::jthread([lines = progress(std::move(what))](const std::stop_token& stop) mutable {
    constexpr std::chrono::milliseconds a_moment{250};
    std::mutex alone;
    std::condition_variable_any stopped;
    std::unique_lock lock(alone);
    while (!stop.stop_requested()) {
      stopped.wait_for(lock, stop, a_moment, [] { return false; });
      if (!stop.stop_requested()) lines.tick();
    }
  });
}

}  // namespace um
