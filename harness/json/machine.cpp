#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/figures.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

constexpr std::string_view driver = "uvm.";

bool is_of_driver(const figure& f) {
  return f.name.starts_with(driver);
}
// Within the object that holds it.
std::string field_of(const figure& f) {
  return std::string(is_of_driver(f) ? f.name.substr(driver.size()) : f.name);
}

std::vector<std::string> names_of_figures() {
  std::vector<std::string> names;
  for (const figure& f : figures()) names.emplace_back(f.name);
  return names;
}

void read_figures(fields& object, bool of_driver, machine& to) {
  for (const figure& f : figures()) {
    if (is_of_driver(f) != of_driver) continue;
    const std::string field = field_of(f);
    if (!f.may_be_absent || object.has(field)) {
      set_value(to, f, object.integer(field, f.least, f.most));
    } else if (f.from == figure_source::fitted) {
      to.borrowed.emplace_back(f.name);
    }
  }
}

void read_driver(fields object, machine& to) {
  read_figures(object, true, to);
  const byte_count chunk = to.uvm.host_chunk_bytes;
  if (chunk != 4 * KiB && chunk != 64 * KiB && chunk != 2 * MiB) {
    refuse(object.where("host_chunk_bytes"), "must be 4096, 65536 or 2097152");
  }
  object.finish();
}

}  // namespace

json json_of(const machine& from) {
  json out{{"schema", 1}, {"name", from.name}, {"source", from.source}, {"calibrated", from.calibrated}};
  for (const figure& f : figures()) {
    if (std::ranges::find(from.borrowed, f.name) != from.borrowed.end()) continue;
    (is_of_driver(f) ? out["uvm"] : out)[field_of(f)] = value_of(from, f);
  }
  out["estimated"] = from.estimated;
  return out;
}

machine machine_from(const json& value, const place& at) {
  fields f(value, at);
  machine to;
  f.schema();
  to.name = f.text("name");
  if (!is_plain_name(to.name)) refuse(f.where("name"), "use lower-case letters, digits, '-', '_', '.'");
  to.source = f.text("source");
  to.calibrated = f.boolean("calibrated");
  read_figures(f, false, to);
  read_driver(f.object("uvm"), to);
  const std::vector<std::string> known = names_of_figures();
  for (const auto& [figure, where] : f.list("estimated")) {
    to.estimated.push_back(known[as_one_of(*figure, where, known)]);
  }
  if (f.has("calibration")) check_calibration(f.object("calibration"));
  f.finish();
  return to;
}

machine with_figures(machine base, const std::map<std::string, measure::spread>& measured) {
  base.estimated.clear();
  base.borrowed.clear();
  for (const figure& f : figures()) {
    const auto found = measured.find(std::string(f.name));
    if (found != measured.end()) {
      set_value(base, f, std::llround(found->second.typical));
    } else {
      base.estimated.emplace_back(f.name);
    }
  }
  return base;
}

std::string to_json(const machine& from) {
  return dump_indented(json_of(from));
}

machine machine_from_json(std::string_view text, const std::string& source) {
  return machine_from(parse_json(text, source), {source, ""});
}

}  // namespace um
