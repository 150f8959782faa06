#include "harness/validate/validation.hpp"

#include "harness/json/document.hpp"

namespace um {
namespace {

constexpr double max_figure = 1e15;
constexpr number_range_format any_ratio{min_ratio, max_ratio};

void describe_network(auto& v, known_figure& k) {
  network_spec n;
  v.field("network", n.name);
  v.field("batch", n.batch, plain_format{1});
  v.field("fusion", n.fusion_mode);
  v.field("pass", n.mode);
  v.field("knobs", n.knobs);
  k.network = complete_and_build(std::move(n));
  v.optional_field("ratios", k.ratios, any_ratio);
  v.field("strategy", k.strategy);
  if (k.unit == "times") v.field("over", k.baseline);
}

}  // namespace

// Fields of a known figure: a pattern of the microbenchmarks, or a cell. Figures are only read.
void describe(auto& v, known_figure& k) {
  v.field("name", k.name);
  v.field("source", k.source);
  v.field("least", k.min_value, number_range_format{1e-6, max_figure});
  v.field("most", k.max_value, number_range_format{k.min_value, max_figure});
  v.field("unit", k.unit, constant_text_format{{"ns", "GB/s", "times", "ms"}});
  v.field("input", k.is_calibration_input);
  v.field("machine", k.machine);
  v.optional_field("why", k.miss_reason);
  v.optional_field("pattern", k.pattern);
  v.optional_field("ratio", k.ratio, any_ratio);
  if (!k.pattern) describe_network(v, k);
  const bool is_rate = k.unit == "ns" || k.unit == "GB/s";
  v.require(is_rate == k.pattern.has_value(),
            "the unit of a pattern is \"ns\" or \"GB/s\", that of a cell \"times\" or \"ms\"");
}

namespace {

struct known_figures {
  std::vector<known_figure> all;
};

}  // namespace

void describe(auto& v, known_figures& f) {
  v.constant("schema", 1);
  v.field("figures", f.all);
}

std::vector<known_figure> published_figures_from_json(std::string_view text, const std::string& source) {
  known_figures found;
  read_object(found, parse_json(text, source), {source, ""});
  return found.all;
}

}  // namespace um
