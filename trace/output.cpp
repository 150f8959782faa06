#include "trace/output.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string_view>

#include "trace/line_writer.hpp"

namespace um::tracing {
namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string command_line_json() {
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

constexpr int max_frames = 32;
constexpr std::size_t max_callers = 8;

bool find_module(std::uint64_t address, Dl_info& info) {
  return dladdr(reinterpret_cast<void*>(address), &info) != 0 && info.dli_fname != nullptr;
}

bool is_of_cuda(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  for (const std::string_view prefix : {"libcuda.", "libcupti", "libcudart", "libumbench_trace"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

std::string environment_line(nanoseconds start, nanoseconds wall) {
  utsname system{};
  uname(&system);
  return '{' + kind_field("environment") + field("schema", schema) + field("tool", "umbench trace") +
         field("process", getpid()) + field("parent", getppid()) + ",\"program\":" + command_line_json() +
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
    if (written <= 0) return;  // if the disk is full the trace is cut off, and the program continues
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string place_of(std::uint64_t program_counter) {
  Dl_info info{};
  if (!find_module(program_counter, info)) return {};
  const auto base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
  const auto* const header = static_cast<const ElfW(Ehdr)*>(info.dli_fbase);
  const std::uint64_t offset = header->e_type == ET_EXEC ? program_counter : program_counter - base;
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "+0x%llx", static_cast<unsigned long long>(offset));
  std::string text = std::string(info.dli_fname) + number.data();
  if (info.dli_sname != nullptr) text += std::string(" ") + info.dli_sname;
  return text;
}

call_stack stack_here() {
  call_stack frames(max_frames);
  frames.resize(static_cast<std::size_t>(backtrace(frames.data(), max_frames)));
  return frames;
}

std::vector<std::string> callers_of(const call_stack& stack) {
  std::vector<std::string> all;
  for (void* const frame : stack) {
    const std::uint64_t call = reinterpret_cast<std::uint64_t>(frame) - 1;
    Dl_info info{};
    if (find_module(call, info) && !is_of_cuda(info.dli_fname)) all.push_back(place_of(call));
    if (all.size() == max_callers) break;
  }
  return all;
}

}  // namespace um::tracing
