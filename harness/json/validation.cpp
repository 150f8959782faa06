#include "harness/validate/validation.hpp"

#include <nlohmann/json.hpp>

#include "harness/json/fields.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

constexpr double most_figure = 1e15;

known_figure figure_from(const json& value, const place& at) {
  fields f(value, at);
  known_figure k;
  k.name = f.text("name");
  k.source = f.text("source");
  k.least = f.number("least", 1e-6, most_figure);
  k.most = f.number("most", k.least, most_figure);
  const std::vector<std::string> units{"ns", "GB/s", "times", "ms"};
  k.unit = units[as_one_of(f.at("unit"), f.where("unit"), units)];
  k.input = f.boolean("input");
  k.machine = f.text("machine");
  if (f.has("why")) k.why = f.text("why");
  if (f.has("pattern")) {
    k.pattern = f.text("pattern");
    if (f.has("ratio")) k.ratio = f.number("ratio", least_ratio, most_ratio);
    if (k.unit != "ns" && k.unit != "GB/s") refuse(f.where("unit"), "of a pattern is \"ns\" or \"GB/s\"");
  } else {
    network_spec n;
    n.name = f.text("network");
    n.batch = f.integer("batch", 1);
    n.fusion_mode = as_choice<fusion>(f.at("fusion"), f.where("fusion"));
    n.mode = as_choice<pass>(f.at("pass"), f.where("pass"));
    n.knobs = knobs_from(f.at("knobs"), f.where("knobs"));
    k.network = built(std::move(n));
    if (f.has("ratio")) k.ratio = f.number("ratio", least_ratio, most_ratio);
    if (f.has("ratios")) {
      for (const auto& [one, where] : f.list("ratios"))
        k.ratios.push_back(as_number(*one, where, least_ratio, most_ratio));
    }
    k.strategy = f.text("strategy");
    if (k.unit == "times") k.over = f.text("over");
    if (k.unit != "times" && k.unit != "ms") refuse(f.where("unit"), "of a cell is \"times\" or \"ms\"");
  }
  f.finish();
  return k;
}

}  // namespace

std::vector<known_figure> known_figures_from_json(std::string_view text, const std::string& source) {
  const json value = parse_json(text, source);
  fields f(value, {source, ""});
  f.schema();
  std::vector<known_figure> all;
  for (const auto& [figure, at] : f.list("figures")) all.push_back(figure_from(*figure, at));
  f.finish();
  return all;
}

}  // namespace um
