// A document's fields are listed once, by a function describe(fields of it, value); the visitors here write
// the document, read it, and make its JSON Schema. For the files of this folder.
//
//   void describe(auto& v, time_band& b) {
//     v.field("low", b.low);
//     v.field("high", b.high);
//   }
//
// Functions of a visitor:
//   field(name, member)        is always there
//   optional_field(name, member) is left out where it is empty
//   nonempty_list(name, list)   the same, and an empty list is refused
//   or_default(name, member)   is written; files may leave it out where it has its default
//   one_or_more(name, list)    one value in place of a list of one; files may leave it out
// The last argument of each is a format, which restricts the value further.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/json/fields.hpp"

namespace um {

// Whether T is an optional, a list or a map, and the type of its elements.
template <class T>
struct container_traits {
  static constexpr bool is_optional = false, is_list = false;
};
template <class T>
struct container_traits<std::optional<T>> {
  using type = T;
  static constexpr bool is_optional = true, is_list = false;
};
template <class T>
struct container_traits<std::vector<T>> {
  using type = T;
  static constexpr bool is_optional = false, is_list = true;
};
template <class T>
struct container_traits<std::map<std::string, T>> {  // the format applies to each value
  using type = T;
  static constexpr bool is_optional = false, is_list = false, is_map = true;
};
template <class T>
concept is_map = requires { container_traits<T>::is_map; };
// Formats that apply to a list or an object as a whole, not to each of its values.
template <class Format>
concept is_whole_format = requires { Format::whole; };

inline json nullable_schema(json schema) {
  return {{"anyOf", json::array({std::move(schema), {{"type", "null"}}})}};
}

// The default format of a type; whole numbers must lie between the limits.
struct plain_format {
  std::int64_t min_value = 0, max_value = max_integer;
  json write(const auto& value) const;
  template <class T>
  T read(const json& value, const json_place& at) const;
  template <class T>
  json schema() const;
};

// A number from `min_value` to `max_value`.
struct number_range_format {
  double min_value = 0, max_value = 0;
  json write(auto value) const { return value; }
  template <class T>
  T read(const json& value, const json_place& at) const {
    return static_cast<T>(number_of_value(value, at, min_value, max_value));
  }
  template <class T>
  json schema() const {
    return {{"type", "number"}, {"minimum", min_value}, {"maximum", max_value}};
  }
};

// One of some values of an enumeration.
template <class E, std::size_t N>
struct choice_format {
  std::array<E, N> all;
  json write(E value) const { return to_text(value); }
  E read(const json& value, const json_place& at) const {
    return choice_of_value(value, at, std::span<const E>(all));
  }
  json schema() const {
    json names = json::array();
    for (const E value : all) names.push_back(to_text(value));
    return {{"enum", names}};
  }
};
template <class E, class... More>
choice_format(E, More...) -> choice_format<E, 1 + sizeof...(More)>;

// A text that is one of these.
struct constant_text_format {
  std::vector<std::string> all;
  json write(const std::string& text) const { return text; }
  std::string read(const json& value, const json_place& at) const {
    return all[index_of_choice(value, at, all)];
  }
  json schema() const { return {{"enum", all}}; }
};

// A text that the function accepts; without a function the reader of the document checks it later.
struct checked_text_format {
  const char* pattern = nullptr;  // regular expression for the schema
  bool (*is_good)(std::string_view) = nullptr;
  const char* refusal = nullptr;
  bool may_be_empty = true;
  json write(const std::string& text) const { return text; }
  std::string read(const json& value, const json_place& at) const {
    std::string text = text_of_value(value, at);
    if (is_good != nullptr && !is_good(text)) throw_bad_value(at, refusal);
    return text;
  }
  json schema() const {
    json made{{"type", "string"}};
    if (!may_be_empty) made["minLength"] = 1;
    if (pattern != nullptr) made["pattern"] = pattern;
    return made;
  }
};

// Names that can stand in keys and file names (harness/json/fields.hpp).
inline constexpr checked_text_format plain_name{"^[a-z0-9._-]+$", is_plain_name,
                                                "use lower-case letters, digits, '-', '_', '.'"};
inline constexpr checked_text_format strategy_name{"^[a-z0-9._-][a-z0-9._#,=-]*$", is_strategy_name,
                                                   plain_name.refusal};
// "sim:NAME" or "cuda:N"; parse_backend() throws for other texts.
inline constexpr checked_text_format backend_text{"^(sim:.+|cuda:[0-9]+)$"};

// Any whole number.
inline constexpr plain_format any_integer{std::numeric_limits<std::int64_t>::min()};

template <class T, class Format>
json write_value(const T& value, const Format& format) {
  if constexpr (is_whole_format<Format>) {
    return format.write(value);
  } else if constexpr (container_traits<T>::is_optional) {
    return value ? write_value(*value, format) : json(nullptr);
  } else if constexpr (container_traits<T>::is_list) {
    json all = json::array();
    for (const auto& element : value) all.push_back(write_value(element, format));
    return all;
  } else if constexpr (is_map<T>) {
    json all = json::object();
    for (const auto& [name, element] : value) all[name] = write_value(element, format);
    return all;
  } else {
    return format.write(value);
  }
}

template <class T>
bool is_empty(const T& value) {
  if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else if constexpr (requires { value.has_value(); }) {
    return !value;
  } else {
    return value == T{};
  }
}

// Formats of one type are plain structs; in those of several types read() and schema() are templates.
template <class T, class Format>
T read_one(const json& value, const json_place& at, const Format& format) {
  if constexpr (requires { format.template read<T>(value, at); }) {
    return format.template read<T>(value, at);
  } else {
    return format.read(value, at);
  }
}
template <class T, class Format>
json schema_of_one(const Format& format) {
  if constexpr (requires { format.template schema<T>(); }) {
    return format.template schema<T>();
  } else {
    return format.schema();
  }
}

template <class T, class Format>
T read_value(const json& value, const json_place& at, const Format& format) {
  if constexpr (is_whole_format<Format>) {
    return read_one<T>(value, at, format);
  } else if constexpr (container_traits<T>::is_optional) {
    if (value.is_null()) return std::nullopt;
    return read_value<typename container_traits<T>::type>(value, at, format);
  } else if constexpr (container_traits<T>::is_list) {
    T all;
    for (const auto& [element, where] : items_of_value(value, at)) {
      all.push_back(read_value<typename container_traits<T>::type>(*element, where, format));
    }
    return all;
  } else if constexpr (is_map<T>) {
    T all;
    const fields object(value, at);  // throws if the value is not an object
    for (const auto& [name, element] : value.items()) {
      all[name] = read_value<typename container_traits<T>::type>(element, place_of_field(at, name), format);
    }
    return all;
  } else {
    return read_one<T>(value, at, format);
  }
}

template <class T, class Format>
json schema_of(const Format& format) {
  if constexpr (is_whole_format<Format>) {
    return schema_of_one<T>(format);
  } else if constexpr (container_traits<T>::is_optional) {
    return nullable_schema(schema_of<typename container_traits<T>::type>(format));
  } else if constexpr (container_traits<T>::is_list) {
    return {{"type", "array"}, {"items", schema_of<typename container_traits<T>::type>(format)}};
  } else if constexpr (is_map<T>) {
    return {{"type", "object"},
            {"additionalProperties", schema_of<typename container_traits<T>::type>(format)}};
  } else {
    return schema_of_one<T>(format);
  }
}

// A list, or a single value that stands for a list of one.
template <class T, class Format>
std::vector<T> read_one_or_more(const json& value, const json_place& at, const Format& format) {
  if (!value.is_array()) return {read_value<T>(value, at, format)};
  std::vector<T> list;
  for (const auto& [one, where] : items_of_value(value, at))
    list.push_back(read_value<T>(*one, where, format));
  if (list.empty()) throw_bad_value(at, "the list is empty; give at least one value");
  return list;
}
template <class T, class Format>
json schema_of_one_or_more(const Format& format) {
  const json one = schema_of<T>(format);
  return {{"anyOf", {one, {{"type", "array"}, {"minItems", 1}, {"items", one}}}}};
}

class field_writer {
 public:
  static constexpr bool is_reader = false, makes_schema = false;
  json out = json::object();

  template <class T, class Format = plain_format>
  void field(const char* name, T& member, const Format& format = {}) {
    out[name] = write_value(member, format);
  }
  template <class T, class Format = plain_format>
  void optional_field(const char* name, T& member, const Format& format = {}) {
    if (!is_empty(member)) field(name, member, format);
  }
  template <class T, class Format = plain_format>
  void nonempty_list(const char* name, T& list, const Format& format = {}) {
    optional_field(name, list, format);
  }
  template <class T, class Format = plain_format>
  void or_default(const char* name, T& member, const Format& format = {}) {
    field(name, member, format);
  }
  template <class T, class Format = plain_format>
  void one_or_more(const char* name, const std::vector<T>& list, const Format& format = {}) {
    for (const auto& one : list) out[name].push_back(write_value(T(one), format));
  }
  // A field that is computed from others: written, ignored when read.
  template <class T>
  void derived(const char* name, const std::optional<T>& value) {
    out[name] = nullable(value);
  }
  void constant(const char* name, const json& value) { out[name] = value; }
  void require(bool, const char*) {}
  void note(const char*, const char*) {}
  void rule(const char*) {}
};

class field_reader {
 public:
  static constexpr bool is_reader = true, makes_schema = false;
  field_reader(const json& object, const json_place& at) : fields_(object, at) {}

  template <class T, class Format = plain_format>
  void field(const char* name, T& member, const Format& format = {}) {
    member = read_value<T>(fields_.at(name), where(name), format);
  }
  template <class T, class Format = plain_format>
  void optional_field(const char* name, T& member, const Format& format = {}) {
    if (!fields_.has(name)) return;
    if constexpr (container_traits<T>::is_optional) {
      member = read_value<typename container_traits<T>::type>(fields_.at(name), where(name), format);
    } else {
      field(name, member, format);
    }
  }
  template <class T, class Format = plain_format>
  void nonempty_list(const char* name, T& list, const Format& format = {}) {
    if (!fields_.has(name)) return;
    field(name, list, format);
    if (list.empty()) throw_bad_value(where(name), "the list is empty; leave the field out");
  }
  template <class T, class Format = plain_format>
  void or_default(const char* name, T& member, const Format& format = {}) {
    if (fields_.has(name)) field(name, member, format);
  }
  template <class T, class Format = plain_format>
  void one_or_more(const char* name, std::vector<T>& list, const Format& format = {}) {
    if (fields_.has(name)) list = read_one_or_more<T>(fields_.at(name), where(name), format);
  }
  template <class T>
  void derived(const char* name, const std::optional<T>&) {
    if (!fields_.has(name) || fields_.at(name).is_null()) return;
    number_of_value(fields_.at(name), where(name), 0, std::numeric_limits<double>::max());
  }
  void constant(const char* name, const json& value) {
    if (value.is_string()) {
      index_of_choice(fields_.at(name), where(name), {value.get<std::string>()});
    } else {
      fields_.schema();
    }
  }
  void note(const char*, const char*) {}
  void rule(const char*) {}
  // Throws unless the condition holds.
  void require(bool condition, const char* problem) {
    if (!condition) throw_bad_value(fields_.where(), problem);
  }
  [[noreturn]] void refuse_here(const std::string& problem) { throw_bad_value(fields_.where(), problem); }
  bool has(std::string_view name) { return fields_.has(name); }
  json_place where(std::string_view name) const { return fields_.where(name); }
  void finish() { fields_.finish(); }

 private:
  fields fields_;
};

class object_schema_builder {
 public:
  static constexpr bool is_reader = false, makes_schema = true;
  json properties = json::object(), required = json::array(), rules = json::object();

  template <class T, class Format = plain_format>
  void field(const char* name, T&, const Format& format = {}) {
    properties[name] = schema_of<T>(format);
    required.push_back(name);
  }
  template <class T, class Format = plain_format>
  void optional_field(const char* name, T&, const Format& format = {}) {
    if constexpr (std::is_same_v<T, bool>) {
      properties[name] = {{"const", true}};
    } else if constexpr (container_traits<T>::is_optional) {
      properties[name] = schema_of<typename container_traits<T>::type>(format);
    } else {
      properties[name] = schema_of<T>(format);
    }
  }
  template <class T, class Format = plain_format>
  void nonempty_list(const char* name, T&, const Format& format = {}) {
    properties[name] = schema_of<T>(format);
    properties[name]["minItems"] = 1;
  }
  template <class T, class Format = plain_format>
  void or_default(const char* name, T& member, const Format& format = {}) {
    properties[name] = schema_of<T>(format);
    properties[name]["default"] = write_value(member, format);
  }
  template <class T, class Format = plain_format>
  void one_or_more(const char* name, std::vector<T>& list, const Format& format = {}) {
    properties[name] = schema_of_one_or_more<T>(format);
    if (list.size() == 1) properties[name]["default"] = write_value(T(list.front()), format);
  }
  template <class T>
  void derived(const char* name, const std::optional<T>&) {
    properties[name] = {{"type", {"number", "null"}}, {"minimum", 0}};
  }
  void constant(const char* name, const json& value) {
    properties[name] = {{"const", value}};
    required.push_back(name);
  }
  // Adds a description of a field to the schema.
  void note(const char* name, const char* text) { properties[name]["description"] = text; }
  void require(bool, const char*) {
  }  // conditions on several fields are not properties in a schema; see rule()
  // A condition on several fields, as a part of the schema.
  void rule(const char* schema) { rules.update(json::parse(schema)); }

  json object_schema() const {
    json made{{"type", "object"},
              {"properties", properties},
              {"required", required},
              {"additionalProperties", false}};
    made.update(rules);
    return made;
  }
};

// --- whole documents, and parts of them that are objects ---

json write_object(auto& value) {
  field_writer v;
  describe(v, value);
  return std::move(v.out);
}

void read_object(auto& value, const json& from, const json_place& at) {
  field_reader v(from, at);
  describe(v, value);
  v.finish();
}

// The beginning of a schema; the caller adds the rest by update().
inline json schema_titled(const char* title, const char* description) {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", title},
          {"description", description}};
}

template <class T>
json schema_of_object() {
  object_schema_builder v;
  T any{};
  describe(v, any);
  return v.object_schema();
}

// The fields of a network of the catalogue; `name` and `knobs` are the names of two of them.
void describe_network(auto& v, network_spec& n, const char* name, const char* knobs) {
  v.field(name, n.name);
  v.field("batch", n.batch, plain_format{1});
  v.field("pass", n.mode);
  v.field("sgd", n.appends_sgd);
  v.optional_field("optimizer", n.optimizer);
  v.optional_field("masters", n.keeps_masters);
  v.field(knobs, n.knobs, any_integer);
  v.field("fusion", n.fusion_mode);
  v.field("precision", n.arithmetic);
  memory_order order = n.order.value_or(standard_order(n.arithmetic));
  v.field("memory_order", order);
  n.order = order;
}

// --- values by their types ---

template <class T>
json plain_format::write(const T& value) const {
  if constexpr (named_enum<T>) {
    return to_text(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string>) {
    return value;
  } else {
    T copy = value;
    return write_object(copy);
  }
}

template <class T>
T plain_format::read(const json& value, const json_place& at) const {
  if constexpr (named_enum<T>) {
    return choice_of_value<T>(value, at);
  } else if constexpr (std::is_same_v<T, bool>) {
    return boolean_of_value(value, at);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(integer_of_value(value, at, min_value, max_value));
  } else if constexpr (std::is_same_v<T, double>) {
    constexpr double any = std::numeric_limits<double>::max();
    return number_of_value(value, at, -any, any);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text_of_value(value, at);
  } else {
    T made{};
    read_object(made, value, at);
    return made;
  }
}

template <class T>
json plain_format::schema() const {
  if constexpr (named_enum<T>) {
    json names = json::array();
    for (const std::string_view name : enum_names<T>) names.push_back(name);
    return {{"enum", names}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_integral_v<T>) {
    json whole{{"type", "integer"}, {"minimum", min_value}};
    if (max_value != max_integer) whole["maximum"] = max_value;
    return whole;
  } else if constexpr (std::is_same_v<T, double>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else {
    return schema_of_object<T>();
  }
}

}  // namespace um
