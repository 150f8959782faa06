#include "harness/json/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/digest.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

constexpr std::size_t max_depth = 64;  // documents of umbench nest less than ten deep

// Refuses objects with a repeated field, and documents that are nested too deeply. It is a SAX parser, since
// the callback of json::parse takes quadratic time for long lists.
class strict_parser : public nlohmann::json_sax<json> {
 public:
  explicit strict_parser(const std::string& source) : source_(source) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return begin_container(); }
  bool end_object() override { return end_container(); }
  bool start_array(std::size_t) override { return begin_container(); }
  bool end_array() override { return end_container(); }
  bool key(std::string& name) override {
    if (names_.back().insert(name).second) return true;
    throw input_error(
        fmt::format("{}: field \"{}\" is given twice in one object; keep one", source_, one_line(name)));
  }
  // json::parse reports the error.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool begin_container() {
    if (names_.size() >= max_depth) {
      throw input_error(fmt::format("{}: not JSON of umbench: lists or objects are nested more than {} deep",
                                    source_, max_depth));
    }
    names_.emplace_back();
    return true;
  }
  bool end_container() {
    names_.pop_back();
    return true;
  }

  const std::string& source_;
  std::vector<std::set<std::string>> names_;  // field names of every open object; empty for a list
};

// The library's message without its prefix: "parse error at line 3, column 5: ...".
std::string error_message(const json::exception& error) {
  const std::string what = error.what();
  const std::size_t end = what.find("] ");
  return one_line(end == std::string::npos ? what : what.substr(end + 2));
}

std::string value_text(const json& value) {
  const std::string text = one_line(dump_line(value));
  constexpr std::size_t longest = 60;
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

}  // namespace

json_place place_of_field(const json_place& at, std::string_view field) {
  return {at.source, at.field_path.empty() ? std::string(field) : fmt::format("{}.{}", at.field_path, field)};
}

json_place place_of_field(const json_place& at, std::size_t index) {
  return {at.source, fmt::format("{}[{}]", at.field_path, index)};
}

void throw_bad_value(const json_place& at, std::string_view problem) {
  throw input_error(at.field_path.empty()
                        ? fmt::format("{}: {}", at.source, problem)
                        : fmt::format("{}: {}: {}", at.source, one_line(at.field_path), problem));
}

bool is_json(std::string_view text) {
  return json::accept(text);
}

json parse_json(std::string_view text, const std::string& source) {
  if (text.starts_with("\xef\xbb\xbf")) {
    throw input_error(fmt::format("{}: not JSON: begins with a byte order mark; remove it", source));
  }
  try {
    strict_parser strict(source);
    json::sax_parse(text, &strict);
    return json::parse(text);
  } catch (const json::exception& error) {
    throw input_error(fmt::format("{}: not JSON: {}", source, error_message(error)));
  }
}

std::string dump_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string dump_indented(const json& value) {
  return value.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string digest_text(std::string_view text, int digits) {
  digest all;
  all.add(std::as_bytes(std::span(text)));
  return fmt::format("{:016x}", all.value()).substr(static_cast<std::size_t>(16 - digits));
}

std::string text_of_value(const json& value, const json_place& at) {
  if (!value.is_string()) throw_bad_value(at, fmt::format("{} is not a text in quotes", value_text(value)));
  return value.get<std::string>();
}

bool boolean_of_value(const json& value, const json_place& at) {
  if (!value.is_boolean())
    throw_bad_value(at, fmt::format("{} is neither true nor false", value_text(value)));
  return value.get<bool>();
}

double number_of_value(const json& value, const json_place& at, double min_value, double max_value) {
  const double number = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  // The condition is false for NaN, too.
  const bool good = number >= min_value && number <= max_value;
  if (!good)
    throw_bad_value(at,
                    fmt::format("{} is not a number from {} to {}", value_text(value), min_value, max_value));
  return number;
}

std::int64_t integer_of_value(const json& value, const json_place& at, std::int64_t min_value,
                              std::int64_t max_value) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max_integer));
  if (!fits || value.get<std::int64_t>() < min_value || value.get<std::int64_t>() > max_value) {
    throw_bad_value(
        at, fmt::format("{} is not a whole number from {} to {}", value_text(value), min_value, max_value));
  }
  return value.get<std::int64_t>();
}

std::vector<std::pair<const json*, json_place>> items_of_value(const json& value, const json_place& at) {
  if (!value.is_array()) throw_bad_value(at, fmt::format("{} is not a list", value_text(value)));
  std::vector<std::pair<const json*, json_place>> elements;
  for (const json& element : value) elements.emplace_back(&element, place_of_field(at, elements.size()));
  return elements;
}

std::size_t index_of_choice(const json& value, const json_place& at, const std::vector<std::string>& names) {
  const std::string text = text_of_value(value, at);
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw_bad_value(at, unknown_name("value", text, names));
  return static_cast<std::size_t>(found - names.begin());
}

fields::fields(const json& object, json_place at) : object_(&object), at_(std::move(at)) {
  if (!object.is_object()) throw_bad_value(at_, fmt::format("{} is not an object", value_text(object)));
}

bool fields::has(std::string_view name) {
  names_read_.emplace_back(name);
  return object_->contains(name);
}

const json& fields::at(std::string_view name) {
  if (!has(name)) throw_bad_value(at_, fmt::format("field \"{}\" is missing; add it", name));
  return object_->find(name).value();
}

void fields::schema() {
  const std::int64_t version = integer_of_value(at("schema"), where("schema"));
  if (version != 1)
    throw_bad_value(where("schema"), fmt::format("{} is {}; this umbench reads 1", version,
                                                 version > 1 ? "from a newer umbench" : "unknown"));
}

void fields::finish() {
  std::sort(names_read_.begin(), names_read_.end());
  names_read_.erase(std::unique(names_read_.begin(), names_read_.end()), names_read_.end());
  for (const auto& [name, value] : object_->items()) {
    if (!std::binary_search(names_read_.begin(), names_read_.end(), name)) {
      throw_bad_value(at_, unknown_name("field", name, names_read_));
    }
  }
}

bool is_plain_name(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string_view::npos;
}

bool is_strategy_name(std::string_view name) {
  std::string plain(name);
  std::erase_if(plain, [](char c) { return c == '#' || c == ',' || c == '='; });
  return is_plain_name(plain) && is_plain_name(name.substr(0, 1));
}

}  // namespace um
