#include <nlohmann/json.hpp>

#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

constexpr double any = std::numeric_limits<double>::max();

json json_of(const std::map<std::string, measure::spread>& all) {
  json out = json::object();
  for (const auto& [name, s] : all) {
    out[name] = {{"samples", s.samples}, {"least", s.least}, {"typical", s.typical}, {"most", s.most}};
  }
  return out;
}

void check_spreads(const json& value, const place& at) {
  if (!value.is_object()) refuse(at, "wants an object of spreads");
  for (const auto& [name, spread] : value.items()) {
    fields f(spread, inside(at, name));
    f.integer("samples", 1);
    for (const char* const part : {"least", "typical", "most"}) f.number(part, -any, any);
    f.finish();
  }
}

}  // namespace

std::string to_json(const machine& of, const measure::calibration& from) {
  json out = json_of(of);
  out["calibration"] = {{"figures", json_of(from.found.by_name)},
                        {"samples", json_of(from.samples)},
                        {"notes", from.found.notes}};
  return dump_indented(out);
}

std::string to_json(const measure::readings& all) {
  return dump_indented(json(all));
}

void check_calibration(fields f) {
  for (const char* const part : {"figures", "samples"}) check_spreads(f.at(part), f.where(part));
  for (const auto& [note, at] : f.list("notes")) as_text(*note, at);
  f.finish();
}

}  // namespace um
