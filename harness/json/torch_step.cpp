#include "harness/json/torch_step.hpp"

#include <nlohmann/json.hpp>

#include "harness/json/fields.hpp"

namespace um {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
constexpr double most_seconds = 3600;

std::vector<torch_id> numbers_in(fields& f, std::string_view name, std::size_t nodes) {
  std::vector<torch_id> numbers;
  for (const auto& [value, at] : f.list(name)) {
    const auto number = as_integer(*value, at, 0, most_integer);
    if (number >= static_cast<std::int64_t>(nodes)) refuse(at, "names no earlier node");
    numbers.push_back(static_cast<torch_id>(number));
  }
  return numbers;
}

torch_kind kind_in(fields& f) {
  const std::vector<std::string> names{"input",     "view",          "item",  "pointwise",
                                       "reduction", "far_reduction", "kernel"};
  return static_cast<torch_kind>(as_one_of(f.at("kind"), f.where("kind"), names));
}

torch_node node_in(const json& value, const place& at, std::size_t number) {
  fields f(value, at);
  torch_node n;
  n.kind = kind_in(f);
  n.inputs = numbers_in(f, "inputs", number);
  if ((n.kind == torch_kind::view || n.kind == torch_kind::item) && n.inputs.empty())
    refuse(at, "a view or an item has an input");
  n.bytes = f.integer("bytes", 0, most_bytes);
  n.elements = f.integer("elements", 0, most_bytes);
  n.ns = f.integer("ns", 0, most_bytes);
  n.workspace = f.integer("workspace", 0, most_bytes);
  n.family = static_cast<int>(f.integer("family", 0, 1 << 30));
  n.forward = f.boolean("forward");
  n.resident = f.boolean("resident");
  n.repeatable = f.boolean("repeatable");
  n.forward_result = f.boolean("forward_result");
  n.backward_result = f.boolean("backward_result");
  f.finish();
  return n;
}

json number_or_none(torch_id v) {
  return v == no_node ? json(nullptr) : json(v);
}

json estimate_of(const torch_plan& plan) {
  const torch_estimate& e = plan.estimate;
  json offloaded = json::array();
  for (const torch_copy& c : plan.offloaded)
    offloaded.push_back({c.tensor, number_or_none(c.gone_after), number_or_none(c.back_before)});
  return {{"ns", e.ns},
          {"peak", e.peak},
          {"forward_peak", e.forward_peak},
          {"saved_bytes", e.saved_bytes},
          {"peak_node", e.peak_node == no_node ? -1 : static_cast<std::int64_t>(e.peak_node)},
          {"evaluations", plan.evaluations},
          {"saved", plan.saved},
          {"offloaded", std::move(offloaded)},
          {"recomputed", plan.recomputed}};
}

}  // namespace

torch_question torch_question_from(const std::string& text, const std::string& source) {
  const json value = parse_json(text, source);
  fields f(value, {source, ""});
  torch_question q;
  for (const auto& [node, at] : f.list("nodes"))
    q.step.nodes.push_back(node_in(*node, at, q.step.nodes.size()));
  q.budget = f.integer("budget", 1, most_bytes);
  q.step.base_bytes = f.integer("base_bytes", 0, most_bytes);
  q.step.bytes_per_ns = f.number("bytes_per_ns", 1e-6, 1e9);
  q.step.launch_ns = f.integer("launch_ns", 0, most_bytes);
  q.step.between_ns = f.integer("between_ns", 0, most_bytes);
  q.step.link_bytes_per_ns = f.number("link_bytes_per_ns", 0, 1e9);
  q.step.copy_ns = f.integer("copy_ns", 0, most_bytes);
  q.step.copy_drag = f.number("copy_drag", 0, 1);
  q.step.fused = f.boolean("fused");
  q.begin = numbers_in(f, "begin", q.step.nodes.size());
  q.seconds = f.number("seconds", 0, most_seconds);
  f.finish();
  return q;
}

std::string to_json(const torch_plan& own, const torch_plan& made) {
  return dump_line(json{{"begin", estimate_of(own)}, {"plan", estimate_of(made)}});
}

}  // namespace um
