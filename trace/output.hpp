// The file that one process writes, and its first line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace um::tracing {

inline constexpr int schema = 1;

// The line about the process itself: its program, kernel and driver. All other times are relative to `start`;
// `wall` is the same moment in Unix time.
std::string environment_line(nanoseconds start, nanoseconds wall);

// Appends to PATH.PID; the command that started the program joins the files. write() passes the text to the
// kernel before it returns, so that it survives a crash of the program.
class output {
 public:
  explicit output(const std::string& path);
  bool is_open() const { return file_ >= 0; }
  void write(std::string_view text) const;

 private:
  int file_ = -1;
};

// Returns file+0xoffset, as addr2line expects it, and the symbol if the file exports one; "" for an address
// that is not code.
std::string place_of(std::uint64_t program_counter);

using call_stack = std::vector<void*>;  // return addresses, innermost first
call_stack stack_here();

// Returns the places of a stack, without the frames of CUDA's libraries and of this library.
std::vector<std::string> callers_of(const call_stack& stack);

}  // namespace um::tracing
