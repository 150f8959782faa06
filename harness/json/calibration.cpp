#include "harness/json/document.hpp"
#include "harness/json/json.hpp"

namespace um {
namespace {

// What a machine file keeps of its calibration. Readers of a machine need none of it.
struct kept_calibration {
  std::map<std::string, measure::spread> figures, samples;
  std::vector<std::string> notes;
};

}  // namespace

void describe(auto& v, measure::spread& s) {
  v.field("samples", s.samples, plain_format{1});
  v.field("least", s.min);
  v.field("typical", s.typical);
  v.field("most", s.max);
}

void describe(auto& v, kept_calibration& c) {
  v.field("figures", c.figures);
  v.field("samples", c.samples);
  v.field("notes", c.notes);
}

std::string to_json(const machine& of, const measure::calibration& from) {
  json out = json_of(of);
  kept_calibration kept{from.results.spread_of_figure, from.samples, from.results.notes};
  out["calibration"] = write_object(kept);
  return dump_indented(out);
}

std::string to_json(const measure::readings& all) {
  return dump_indented(json(all));
}

measure::readings readings_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  const json_place top{source, ""};
  if (!document.is_object()) throw_bad_value(top, "is not an object");
  measure::readings all;
  for (const auto& [name, values] : document.items()) {
    const json_place at = place_of_field(top, name);
    all[name] = read_value<std::vector<double>>(values, at, plain_format{});
    if (all[name].empty()) throw_bad_value(at, "has no samples");
  }
  return all;
}

void check_calibration(const json& value, const json_place& at) {
  kept_calibration any;
  read_object(any, value, at);
}

}  // namespace um
