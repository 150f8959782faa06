// Strict reading of JSON. Every error is an input_error `source: path: what is wrong`. An object is read
// through `fields`, which throws for missing fields and, in finish(), for unknown ones.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/names.hpp"
#include "harness/json/json.hpp"

namespace um {

using json = nlohmann::ordered_json;  // fields stay in the order in which they were written

// The place of a value: the file (or "standard input"), and the path inside it.
struct json_place {
  std::string source, field_path;
};
json_place place_of_field(const json_place& at, std::string_view field);
json_place place_of_field(const json_place& at, std::size_t index);
[[noreturn]] void throw_bad_value(const json_place& at, std::string_view problem);

// Throws for malformed text and for objects that have a field twice.
json parse_json(std::string_view text, const std::string& source);
// Whether the text is well-formed JSON. A truncated object is not.
bool is_json(std::string_view text);
// JSON text: dump_line() writes one line, dump_indented() indents.
std::string dump_line(const json& value);
std::string dump_indented(const json& value);
// A digest of the text in that many hexadecimal digits, at most 16.
std::string digest_text(std::string_view text, int digits);

inline constexpr std::int64_t max_integer = std::numeric_limits<std::int64_t>::max();

std::string text_of_value(const json& value, const json_place& at);
bool boolean_of_value(const json& value, const json_place& at);
double number_of_value(const json& value, const json_place& at, double min_value, double max_value);
std::int64_t integer_of_value(const json& value, const json_place& at, std::int64_t min_value = 0,
                              std::int64_t max_value = max_integer);
// The elements of an array, each with its place.
std::vector<std::pair<const json*, json_place>> items_of_value(const json& value, const json_place& at);
// Index of the text among the names.
std::size_t index_of_choice(const json& value, const json_place& at, const std::vector<std::string>& names);

template <class E>
E choice_of_value(const json& value, const json_place& at, std::span<const E> all) {
  std::vector<std::string> names;
  for (const E e : all) names.emplace_back(to_text(e));
  return all[index_of_choice(value, at, names)];
}
// A choice among all values of the enumeration (core/names.hpp).
template <class E>
E choice_of_value(const json& value, const json_place& at) {
  constexpr auto all = all_values<E>();
  return choice_of_value(value, at, std::span<const E>(all));
}

class fields {
 public:
  fields(const json& object, json_place at);

  const json_place& where() const { return at_; }
  json_place where(std::string_view name) const { return place_of_field(at_, name); }

  bool has(std::string_view name);  // whether the field is present, null or not
  const json& at(std::string_view name);  // throws where the field is missing

  // Reads "schema": 1, which every file of the project has.
  void schema();
  // Throws for the first field that has not been read.
  void finish();

 private:
  const json* object_;
  json_place at_;
  std::vector<std::string> names_read_;
};

// JSON of the parts that several documents share; for the files of this folder.

template <class T>
json nullable(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json json_of(const machine& m);

json environment_schema();

json json_of(const hint_strategy& s);
hint_strategy hint_strategy_from(const json& value, const json_place& at);

json json_of(const graph& g);
graph graph_from(const json& value, const json_place& at);

// Names of kinds of operators, as in graphs and machine files.
std::vector<std::string> operator_kinds();

// Lower-case letters, digits, '-', '_', '.'; not empty. Such names can stand in keys and file names.
bool is_plain_name(std::string_view name);
// A plain name, with the suffixes of strategies of rules: "NAME#DIGEST", ",without=RULE".
bool is_strategy_name(std::string_view name);

}  // namespace um
