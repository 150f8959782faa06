// Strict reading of JSON: every refusal is an input_error `source: path: what is wrong`. An object
// is read through `fields`, which refuses what is missing and, in finish(), what is unknown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/names.hpp"

namespace um {

using json = nlohmann::ordered_json;  // fields stay in the order in which they were written

// Where a value stands: the file (or "standard input"), and the path inside it.
struct place {
  std::string source, path;
};
place inside(const place& at, std::string_view field);
place inside(const place& at, std::size_t index);
[[noreturn]] void refuse(const place& at, std::string_view what);

// Refuses malformed text and objects that name a field twice.
json parse_json(std::string_view text, const std::string& source);
// On one line, or indented where a human will read it.
std::string dump_line(const json& value);
std::string dump_indented(const json& value);
// So many hexadecimal digits, at most 16, that depend on all of the text.
std::string digest_text(std::string_view text, int digits);

inline constexpr std::int64_t most_integer = std::numeric_limits<std::int64_t>::max();

std::string as_text(const json& value, const place& at);
bool as_boolean(const json& value, const place& at);
double as_number(const json& value, const place& at, double least, double most);
std::int64_t as_integer(const json& value, const place& at, std::int64_t least = 0,
                        std::int64_t most = most_integer);
std::uint64_t as_count(const json& value, const place& at);
// The elements of an array, each with its place.
std::vector<std::pair<const json*, place>> as_list(const json& value, const place& at);
// Index of the text among the names.
std::size_t as_one_of(const json& value, const place& at, const std::vector<std::string>& names);

template <class E>
E as_choice(const json& value, const place& at, std::span<const E> all) {
  std::vector<std::string> names;
  for (const E e : all) names.emplace_back(to_text(e));
  return all[as_one_of(value, at, names)];
}
template <class E>
E as_choice(const json& value, const place& at, std::initializer_list<E> all) {
  return as_choice(value, at, std::span<const E>(all.begin(), all.size()));
}
// Of all values of the enumeration (core/names.hpp).
template <class E>
E as_choice(const json& value, const place& at) {
  constexpr auto all = all_values<E>();
  return as_choice(value, at, std::span<const E>(all));
}

class fields {
 public:
  fields(const json& object, place at);

  const place& where() const { return at_; }
  place where(std::string_view name) const { return inside(at_, name); }

  bool has(std::string_view name);      // present, null or not
  bool is_null(std::string_view name);  // must be present
  const json& at(std::string_view name);

  std::string text(std::string_view name) { return as_text(at(name), where(name)); }
  bool boolean(std::string_view name) { return as_boolean(at(name), where(name)); }
  double number(std::string_view name, double least, double most) {
    return as_number(at(name), where(name), least, most);
  }
  std::int64_t integer(std::string_view name, std::int64_t least = 0, std::int64_t most = most_integer) {
    return as_integer(at(name), where(name), least, most);
  }
  std::uint64_t count(std::string_view name) { return as_count(at(name), where(name)); }
  fields object(std::string_view name) { return {at(name), where(name)}; }
  std::vector<std::pair<const json*, place>> list(std::string_view name) {
    return as_list(at(name), where(name));
  }

  // "schema": 1, which every file of the project carries.
  void schema();
  // Refuses the first field that was not asked for.
  void finish();

 private:
  const json* object_;
  place at_;
  std::vector<std::string> names_read_;
};

}  // namespace um
