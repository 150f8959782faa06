#include "trace/line_writer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace um::tracing {
namespace {

constexpr std::uint64_t max_lines = 100'000;  // maximum number of lines of a kind that has a limit

}  // namespace

// Bytes that are not ASCII are kept. A reader replaces those that are not UTF-8.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string kind_field(std::string_view name) {
  return "\"kind\":" + quoted(name);
}

std::string field(const char* name, std::string_view text) {
  return std::string(",\"") + name + "\":" + quoted(text);
}

std::string device_field(std::uint32_t device) {
  return device == host ? field("device", "host") : field("device", device);
}

line_writer::line_writer(writer_options to, nanoseconds start) : options_(std::move(to)), start_(start) {}

void line_writer::write_line(const std::string& fields) {
  buffer_ += '{';
  buffer_ += fields;
  buffer_ += "}\n";
}

void line_writer::write_limited_line(const std::string& fields) {
  bytes_of_limited_lines_ += fields.size();
  if (bytes_of_limited_lines_ > options_.max_bytes)
    return note_missing("what moved after the first " + std::to_string(options_.max_bytes / 1'000'000) +
                        " MB of lines");
  write_line(fields);
}

std::uint32_t line_writer::name_id(std::string_view text) {
  const auto [at, is_new] = names_.try_emplace(std::string(text), static_cast<std::uint32_t>(names_.size()));
  if (is_new) write_line(kind_field("name") + field("id", at->second) + field("name", text));
  return at->second;
}

std::string line_writer::callers_field(const std::vector<std::string>& places) {
  std::string out;
  for (const std::string& place : places) {
    if (!out.empty()) out += ',';
    out += std::to_string(name_id(place));
  }
  return ",\"called\":[" + out + ']';
}

std::string line_writer::place_field(std::uint64_t program_counter) {
  if (program_counter == 0 || !options_.place) return {};
  return field("place", name_id(options_.place(program_counter)));
}

void line_writer::note_missing(const std::string& what) {
  if (std::find(missing_.begin(), missing_.end(), what) != missing_.end()) return;
  missing_.push_back(what);
  write_line(kind_field("lacking") + field("what", what));
}

bool line_writer::count_line_within_limit(std::uint64_t& lines, const char* what) {
  if (++lines <= max_lines) return true;
  note_missing(std::string(what) + " after the first " + std::to_string(max_lines));
  return false;
}

void line_writer::flush() {
  if (!buffer_.empty()) options_.write(buffer_);
  buffer_.clear();
}

}  // namespace um::tracing
