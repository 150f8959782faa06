// The file that one process writes, and its first line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace um::tracing {

inline constexpr int schema = 1;

// The line about the process itself: its program, kernel and driver. `start` is the zero of all other times,
// `wall` the same moment in Unix time.
std::string environment_line(nanoseconds start, nanoseconds wall);

// Appends to PATH.PID; the command that started the program joins the files. Text is with the kernel when
// write() returns, so that it outlives a crash.
class output {
 public:
  explicit output(const std::string& path);
  bool is_open() const { return file_ >= 0; }
  void write(std::string_view text) const;

 private:
  int file_ = -1;
};

// file+0xoffset, as addr2line wants it, and the symbol where the file exports one; "" for what is no code.
std::string place_of(std::uint64_t program_counter);

using call_stack = std::vector<void*>;  // return addresses, innermost first
call_stack stack_here();

// The places, without the frames of CUDA's own libraries and of this one.
std::vector<std::string> callers_of(const call_stack& stack);

}  // namespace um::tracing
