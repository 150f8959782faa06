// Writes the lines of a trace file. Numbers stand for repeated names, and limits bound the size of the file.
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

// Returns a JSON string with its quotes.
std::string quoted(std::string_view text);

// Returns `"kind":"name"`, with which every line begins.
std::string kind_field(std::string_view name);

// `,"name":value`
template <std::integral Number>
std::string field(const char* name, Number value) {
  return std::string(",\"") + name + "\":" + std::to_string(value);
}
std::string field(const char* name, std::string_view text);
// A GPU's number, or "host".
std::string device_field(std::uint32_t device);

struct writer_options {
  std::function<void(std::string_view)> write;      // whole lines, each with its end of line
  std::function<std::string(std::uint64_t)> place;  // returns a program counter as module+0xoffset
  std::uint64_t max_bytes = 45'000'000;             // maximum total size of the lines about blocks
};

class line_writer {
 public:
  line_writer(writer_options to, nanoseconds start);

  void write_line(const std::string& fields);
  // Writes a line about blocks, unless `max_bytes` of such lines were written.
  void write_limited_line(const std::string& fields);
  // Returns a field with a time relative to the start of the trace.
  std::string time_field(const char* name, nanoseconds at) const { return field(name, at - start_); }
  // Returns the number that stands for a text. Writes the line that defines the number at its first use.
  std::uint32_t name_id(std::string_view text);
  std::string callers_field(const std::vector<std::string>& places);
  std::string place_field(std::uint64_t program_counter);
  // Writes once that this trace lacks `what`.
  void note_missing(const std::string& what);
  // Increments `lines`, and returns whether it is within the limit of lines of a kind.
  bool count_line_within_limit(std::uint64_t& lines, const char* what);
  void flush();

 private:
  writer_options options_;
  nanoseconds start_;
  std::string buffer_;  // lines not yet passed to options_.write
  std::unordered_map<std::string, std::uint32_t> names_;
  std::vector<std::string> missing_;  // texts of note_missing()
  std::uint64_t bytes_of_limited_lines_ = 0;
};

}  // namespace um::tracing
