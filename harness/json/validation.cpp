#include "harness/validate/validation.hpp"

#include <nlohmann/json.hpp>

#include "harness/json/document.hpp"

namespace um {
namespace {

constexpr double most_figure = 1e15;
constexpr between any_ratio{least_ratio, most_ratio};

template <class Visitor>
void describe_cell(Visitor& v, known_figure& k) {
  network_spec n;
  v.field("network", n.name);
  v.field("batch", n.batch, plain{1});
  v.field("fusion", n.fusion_mode);
  v.field("pass", n.mode);
  v.field("knobs", n.knobs);
  k.network = built(std::move(n));
  v.if_any("ratios", k.ratios, any_ratio);
  v.field("strategy", k.strategy);
  if (k.unit == "times") v.field("over", k.over);
}

}  // namespace

// For reading alone: a pattern of the microbenchmarks, or a cell.
template <class Visitor>
void describe(Visitor& v, known_figure& k) {
  v.field("name", k.name);
  v.field("source", k.source);
  v.field("least", k.least, between{1e-6, most_figure});
  v.field("most", k.most, between{k.least, most_figure});
  v.field("unit", k.unit, one_text{{"ns", "GB/s", "times", "ms"}});
  v.field("input", k.input);
  v.field("machine", k.machine);
  v.if_any("why", k.why);
  v.if_any("pattern", k.pattern);
  v.if_any("ratio", k.ratio, any_ratio);
  if (!k.pattern) describe_cell(v, k);
  const bool is_rate = k.unit == "ns" || k.unit == "GB/s";
  v.require(is_rate == k.pattern.has_value(),
            "the unit of a pattern is \"ns\" or \"GB/s\", that of a cell \"times\" or \"ms\"");
}

namespace {

struct known_figures {
  std::vector<known_figure> all;
};

}  // namespace

template <class Visitor>
void describe(Visitor& v, known_figures& f) {
  v.constant("schema", 1);
  v.field("figures", f.all);
}

std::vector<known_figure> known_figures_from_json(std::string_view text, const std::string& source) {
  known_figures found;
  read_object(found, parse_json(text, source), {source, ""});
  return found.all;
}

}  // namespace um
