// Writes lines of one trace file: numbers stand for names, and limits keep the file from growing without end.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/units.hpp"
#include "trace/records.hpp"

namespace um::tracing {

// JSON, as far as the lines of a trace need it.
std::string quoted(std::string_view text);

// `"kind":"name"`, which every line begins with.
std::string kind(std::string_view name);

// `,"name":value`
template <std::integral Number>
std::string field(const char* name, Number value) {
  return std::string(",\"") + name + "\":" + std::to_string(value);
}
std::string field(const char* name, std::string_view text);
// A GPU's number, or "host".
std::string device_field(std::uint32_t device);

struct sinks {
  std::function<void(std::string_view)> write;      // whole lines, each with its end of line
  std::function<std::string(std::uint64_t)> place;  // a program counter as module+0xoffset
  std::uint64_t most_bytes = 45'000'000;            // most bytes of lines about blocks
};

class line_writer {
 public:
  line_writer(sinks to, nanoseconds start);

  void line(const std::string& fields);
  // Writes a line about blocks, unless `most_bytes` of such lines were written.
  void limited_line(const std::string& fields);
  // A time of the program's clock as one of the file.
  std::string time(const char* name, nanoseconds at) const { return field(name, at - start_); }
  // The number that stands for a text; the line that says so is written before.
  std::uint32_t name_of(std::string_view text);
  std::string callers_field(const std::vector<std::string>& places);
  std::string place(std::uint64_t program_counter);
  // Writes once that this trace lacks `what`.
  void note_missing(const std::string& what);
  // Counts a line of its kind; false once there are too many.
  bool below_limit(std::uint64_t& lines, const char* what);
  void flush();

 private:
  sinks sinks_;
  nanoseconds start_;
  std::string text_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::vector<std::string> missing_;
  std::uint64_t block_bytes_ = 0;
};

}  // namespace um::tracing
