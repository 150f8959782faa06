#include "harness/commands/limits.hpp"

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "harness/io/text.hpp"

namespace um {
namespace {

constexpr rlim_t max_memory = rlim_t{4} << 30;
constexpr int exit_bad_input = 2;

std::string& alarm_message() {
  static std::string line;
  return line;
}

void exit_on_alarm(int) {
  if (write(STDERR_FILENO, alarm_message().data(), alarm_message().size()) < 0) std::_Exit(exit_bad_input);
  std::_Exit(exit_bad_input);
}

void set_processor_alarm(std::chrono::seconds processor) {
  itimerval timer{};
  timer.it_value.tv_sec = processor.count();
  setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace

process_limits::process_limits(const std::string& input, std::chrono::seconds max_processor_time,
                               bool limits_memory) {
  alarm_message() = fmt::format("umbench: {}: takes more than {} s of processor time, and is given up\n",
                                one_line(input), max_processor_time.count());
  std::signal(SIGPROF, exit_on_alarm);
  set_processor_alarm(max_processor_time);
  rlimit now{};
  std::size_t pages = 0;
  if (!limits_memory || getrlimit(RLIMIT_AS, &now) != 0 || !(std::ifstream("/proc/self/statm") >> pages))
    return;
  previous_memory_limit_ = now;
  now.rlim_cur =
      std::min<rlim_t>(now.rlim_cur, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + max_memory);
  setrlimit(RLIMIT_AS, &now);
}

process_limits::~process_limits() {
  set_processor_alarm(std::chrono::seconds{0});
  if (previous_memory_limit_) setrlimit(RLIMIT_AS, &*previous_memory_limit_);
}

}  // namespace um
