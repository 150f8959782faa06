// A document's fields are listed once, by a function describe(fields of it, value); the visitors here write
// the document, read it, and make its JSON Schema. For the files of this folder.
//
//   template <class Visitor>
//   void describe(Visitor& v, time_band& b) {
//     v.field("low", b.low);
//     v.field("high", b.high);
//   }
//
// Of a visitor: field(name, member) is always there; if_any(...) is left out where it is empty. Each takes a
// format last, which says what else the value must be.
#pragma once

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/json/fields.hpp"
#include "harness/json/parts.hpp"

namespace um {

template <class T>
struct inside_of {
  static constexpr bool is_optional = false, is_list = false;
};
template <class T>
struct inside_of<std::optional<T>> {
  using type = T;
  static constexpr bool is_optional = true, is_list = false;
};
template <class T>
struct inside_of<std::vector<T>> {
  using type = T;
  static constexpr bool is_optional = false, is_list = true;
};

inline json or_null_schema(json schema) {
  return {{"anyOf", json::array({std::move(schema), {{"type", "null"}}})}};
}

// The value as its type says; whole numbers from `least` to `most`.
struct plain {
  std::int64_t least = 0, most = most_integer;
  template <class T>
  json write(const T& value) const;
  template <class T>
  T read(const json& value, const place& at) const;
  template <class T>
  json schema() const;
};

template <class T, class Format>
json write_value(const T& value, const Format& format) {
  if constexpr (inside_of<T>::is_optional) {
    return value ? write_value(*value, format) : json(nullptr);
  } else if constexpr (inside_of<T>::is_list) {
    json all = json::array();
    for (const auto& element : value) all.push_back(write_value(element, format));
    return all;
  } else {
    return format.write(value);
  }
}

template <class T, class Format>
T read_value(const json& value, const place& at, const Format& format) {
  if constexpr (inside_of<T>::is_optional) {
    if (value.is_null()) return std::nullopt;
    return read_value<typename inside_of<T>::type>(value, at, format);
  } else if constexpr (inside_of<T>::is_list) {
    T all;
    for (const auto& [element, where] : as_list(value, at)) {
      all.push_back(read_value<typename inside_of<T>::type>(*element, where, format));
    }
    return all;
  } else {
    return format.template read<T>(value, at);
  }
}

template <class T, class Format>
json schema_of(const Format& format) {
  if constexpr (inside_of<T>::is_optional) {
    return or_null_schema(schema_of<typename inside_of<T>::type>(format));
  } else if constexpr (inside_of<T>::is_list) {
    return {{"type", "array"}, {"items", schema_of<typename inside_of<T>::type>(format)}};
  } else {
    return format.template schema<T>();
  }
}

class field_writer {
 public:
  json out = json::object();

  template <class T, class Format = plain>
  void field(const char* name, T& member, const Format& format = {}) {
    out[name] = write_value(member, format);
  }
  template <class T, class Format = plain>
  void if_any(const char* name, T& member, const Format& format = {}) {
    if constexpr (std::is_same_v<T, bool>) {
      if (member) field(name, member, format);
    } else if constexpr (inside_of<T>::is_list) {
      if (!member.empty()) field(name, member, format);
    } else if (member) {
      field(name, *member, format);
    }
  }
  // A field that follows from others: written, ignored when read.
  template <class T>
  void derived(const char* name, const std::optional<T>& value) {
    out[name] = or_null(value);
  }
  void constant(const char* name, const json& value) { out[name] = value; }
  void require(bool, const char*) {}
};

class field_reader {
 public:
  field_reader(const json& object, const place& at) : from_(object, at) {}

  template <class T, class Format = plain>
  void field(const char* name, T& member, const Format& format = {}) {
    member = read_value<T>(from_.at(name), from_.where(name), format);
  }
  template <class T, class Format = plain>
  void if_any(const char* name, T& member, const Format& format = {}) {
    if (!from_.has(name)) return;
    if constexpr (inside_of<T>::is_optional) {
      member = read_value<typename inside_of<T>::type>(from_.at(name), from_.where(name), format);
    } else {
      field(name, member, format);
    }
  }
  template <class T>
  void derived(const char* name, const std::optional<T>&) {
    if (!from_.has(name) || from_.is_null(name)) return;
    from_.number(name, 0, std::numeric_limits<double>::max());
  }
  void constant(const char* name, const json& value) {
    if (value.is_string()) {
      as_one_of(from_.at(name), from_.where(name), {value.get<std::string>()});
    } else {
      from_.schema();
    }
  }
  // Refuses the document unless `is_so`.
  void require(bool is_so, const char* what) {
    if (!is_so) refuse(from_.where(), what);
  }
  void finish() { from_.finish(); }

 private:
  fields from_;
};

class field_schema {
 public:
  json properties = json::object(), required = json::array();

  template <class T, class Format = plain>
  void field(const char* name, T&, const Format& format = {}) {
    properties[name] = schema_of<T>(format);
    required.push_back(name);
  }
  template <class T, class Format = plain>
  void if_any(const char* name, T&, const Format& format = {}) {
    if constexpr (std::is_same_v<T, bool>) {
      properties[name] = {{"const", true}};
    } else if constexpr (inside_of<T>::is_optional) {
      properties[name] = schema_of<typename inside_of<T>::type>(format);
    } else {
      properties[name] = schema_of<T>(format);
    }
  }
  template <class T>
  void derived(const char* name, const std::optional<T>&) {
    properties[name] = {{"type", {"number", "null"}}, {"minimum", 0}};
  }
  void constant(const char* name, const json& value) {
    properties[name] = {{"const", value}};
    required.push_back(name);
  }
  void require(bool, const char*) {}  // what fields say together is no property

  json object() const {
    return {{"type", "object"},
            {"properties", properties},
            {"required", required},
            {"additionalProperties", false}};
  }
};

// --- whole documents, and parts of them that are objects ---

template <class T>
json write_object(T& value) {
  field_writer v;
  describe(v, value);
  return std::move(v.out);
}

template <class T>
void read_object(T& value, const json& from, const place& at) {
  field_reader v(from, at);
  describe(v, value);
  v.finish();
}

template <class T>
json schema_of_object() {
  field_schema v;
  T any{};
  describe(v, any);
  return v.object();
}

// What a network of the catalogue is built from; its name and its knobs by these fields.
template <class Visitor>
void describe_network(Visitor& v, network_spec& n, const char* name, const char* knobs) {
  v.field(name, n.name);
  v.field("batch", n.batch, plain{1});
  v.field("pass", n.mode);
  v.field("sgd", n.sgd);
  v.if_any("optimizer", n.optimizer);
  v.if_any("masters", n.masters);
  v.field(knobs, n.knobs);
  v.field("fusion", n.fusion_mode);
  v.field("precision", n.arithmetic);
  memory_order order = n.order.value_or(standard_order(n.arithmetic));
  v.field("memory_order", order);
  n.order = order;
}

// --- values by their types ---

template <class T>
json plain::write(const T& value) const {
  if constexpr (named_enum<T>) {
    return to_text(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string> ||
                       std::is_same_v<T, std::map<std::string, std::string>> ||
                       std::is_same_v<T, std::map<std::string, std::int64_t>>) {
    return value;
  } else {
    T copy = value;
    return write_object(copy);
  }
}

template <class T>
T plain::read(const json& value, const place& at) const {
  if constexpr (named_enum<T>) {
    return as_choice<T>(value, at);
  } else if constexpr (std::is_same_v<T, bool>) {
    return as_boolean(value, at);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(as_integer(value, at, least, most));
  } else if constexpr (std::is_same_v<T, double>) {
    constexpr double any = std::numeric_limits<double>::max();
    return as_number(value, at, -any, any);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return as_text(value, at);
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::int64_t>>) {
    return knobs_from(value, at);
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    if (!value.is_object()) refuse(at, "wants an object of texts");
    T texts;
    for (const auto& [name, text] : value.items()) texts[name] = as_text(text, inside(at, name));
    return texts;
  } else {
    T made{};
    read_object(made, value, at);
    return made;
  }
}

template <class T>
json plain::schema() const {
  if constexpr (named_enum<T>) {
    json names = json::array();
    for (const std::string_view name : enum_names<T>) names.push_back(name);
    return {{"enum", names}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_integral_v<T>) {
    json whole{{"type", "integer"}, {"minimum", least}};
    if (most != most_integer) whole["maximum"] = most;
    return whole;
  } else if constexpr (std::is_same_v<T, double>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::int64_t>>) {
    return {{"type", "object"}, {"additionalProperties", {{"type", "integer"}}}};
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  } else {
    return schema_of_object<T>();
  }
}

}  // namespace um
