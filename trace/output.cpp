#include "trace/output.hpp"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "trace/text.hpp"

namespace um::tracing {
namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string command_words() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::string out;
  for (std::size_t at = 0; at < all.size();) {
    const std::string word = all.c_str() + at;
    if (!out.empty()) out += ',';
    out += quoted(word);
    at += word.size() + 1;
  }
  return '[' + out + ']';
}

}  // namespace

std::string environment_line(nanoseconds start, nanoseconds wall) {
  utsname system{};
  uname(&system);
  return '{' + kind("environment") + field("schema", schema) + field("tool", "umbench trace") +
         field("process", getpid()) + field("parent", getppid()) + ",\"program\":" + command_words() +
         field("start_ns", start) + field("wall_clock_ns", wall) + field("kernel_release", system.release) +
         field("driver", first_line("/proc/driver/nvidia/version")) + "}\n";
}

output::output(const std::string& path)
    : file_(open((path + '.' + std::to_string(getpid())).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                 0644)) {}

void output::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(file_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a full disk ends the trace, not the program
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace um::tracing
