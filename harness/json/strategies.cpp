#include "harness/json/parts.hpp"

namespace um {
namespace {

json json_of(const strategy& s) {
  json knobs = json::array();
  for (const knob& k : s.knobs) {
    knobs.push_back({{"name", k.name},
                     {"summary", k.summary},
                     {"standard", k.default_value},
                     {"least", k.min_value},
                     {"most", k.max_value}});
  }
  return {{"name", s.name},
          {"summary", s.summary},
          {"family", to_text(s.kind)},
          {"bits", s.is_bit_exact ? "same" : "rounding"},
          {"keeps_budget", s.keeps_budget},
          {"placed_by", to_text(s.packing_algorithm)},
          {"source", s.source.empty() ? json(nullptr) : json(s.source)},
          {"knobs", std::move(knobs)}};
}

}  // namespace

std::string to_json(std::span<const strategy> rows) {
  json all = json::array();
  for (const strategy& s : rows) all.push_back(json_of(s));
  return dump_indented({{"schema", 1}, {"kind", "strategies"}, {"strategies", std::move(all)}});
}

}  // namespace um
