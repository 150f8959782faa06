#include "harness/io/progress.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "harness/io/say.hpp"

namespace um {

progress::progress(std::string what)
    : text_(std::move(what)), start_time_(std::chrono::steady_clock::now()) {}

void progress::tick() {
  constexpr std::chrono::seconds longest{60};
  const auto since =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_time_);
  if (since < next_print_) return;
  print_text("umbench: {}{}{}, {} s so far\n", text_, news_.empty() ? "" : ", ", news_, since.count());
  next_print_ = since + std::min(2 * next_print_, longest);
}

std::jthread start_ticking(std::string what) {
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
