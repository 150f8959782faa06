#include "harness/io/progress.hpp"

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "harness/io/say.hpp"

namespace um {

progress::progress(std::string task)
    : text_(std::move(task)), start_time_(std::chrono::steady_clock::now()) {}

void progress::tick() {
  constexpr std::chrono::seconds longest{60};
  const auto since =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_time_);
  if (since < next_print_) return;
  print_text("umbench: {}{}{}, {} s so far\n", text_, note_.empty() ? "" : ", ", note_, since.count());
  next_print_ = since + std::min(2 * next_print_, longest);
}

progress_thread::progress_thread(std::string task)
    : lines_(std::move(task)), thread_([this](const std::stop_token& stop) {
        constexpr std::chrono::milliseconds a_moment{250};
        std::condition_variable_any stopped;
        std::unique_lock lock(lines_mutex_);
        while (!stop.stop_requested()) {
          stopped.wait_for(lock, stop, a_moment, [] { return false; });
          if (!stop.stop_requested()) lines_.tick();
        }
      }) {}

void progress_thread::note(std::string news) {
  const std::lock_guard lock(lines_mutex_);
  lines_.note(std::move(news));
}

}  // namespace um
