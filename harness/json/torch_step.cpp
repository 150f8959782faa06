#include "harness/json/torch_step.hpp"

#include "harness/json/document.hpp"

namespace um {
namespace {

constexpr std::int64_t max_bytes = std::int64_t{1} << 50;
constexpr double max_rate = 1e9;
constexpr plain_format up_to_most{0, max_bytes};

void check_refers_backwards(const std::vector<torch_id>& numbers, std::size_t nodes, const json_place& at) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= nodes) throw_bad_value(place_of_field(at, i), "names no earlier node");
  }
}

json number_or_none(torch_id v) {
  return v == no_node ? json(nullptr) : json(v);
}

json estimate_of(const torch_plan& plan) {
  const torch_estimate& e = plan.estimate;
  json offloaded = json::array();
  for (const torch_offload& c : plan.offloaded)
    offloaded.push_back({c.tensor, number_or_none(c.freed_after), number_or_none(c.copied_back_before)});
  return {{"ns", e.ns},
          {"peak", e.peak},
          {"forward_peak", e.forward_peak},
          {"saved_bytes", e.saved_bytes},
          {"peak_node", e.peak_node == no_node ? -1 : static_cast<std::int64_t>(e.peak_node)},
          {"evaluations", plan.evaluations},
          {"saved", plan.saved},
          {"offloaded", std::move(offloaded)},
          {"recomputed", plan.recomputed},
          {"stored", plan.stored}};
}

}  // namespace

void describe(auto& v, torch_node& n) {
  v.field("kind", n.kind);
  v.field("inputs", n.inputs, plain_format{0, no_node - 1});
  v.field("shifted", n.shifted_inputs, plain_format{0, no_node - 1});
  v.require((n.kind != torch_kind::view && n.kind != torch_kind::item) || !n.inputs.empty(),
            "a view or an item has an input");
  v.field("bytes", n.bytes, up_to_most);
  v.field("elements", n.elements, up_to_most);
  v.field("ns", n.ns, up_to_most);
  v.field("workspace", n.workspace, up_to_most);
  v.field("pace", n.bandwidth_share, number_range_format{0.01, 1});
  v.field("family", n.family, plain_format{0, 1 << 30});
  v.field("forward", n.can_run_forward);
  v.field("resident", n.is_resident);
  v.field("repeatable", n.is_repeatable);
  v.field("widens", n.is_widening);
  v.field("over_first", n.writes_over_first_input);
  v.field("forward_result", n.is_forward_result);
  v.field("backward_result", n.is_backward_result);
}

void describe(auto& v, torch_question& q) {
  v.field("nodes", q.step.nodes);
  v.field("budget", q.budget, plain_format{1, max_bytes});
  v.field("base_bytes", q.step.base_bytes, up_to_most);
  v.field("bytes_per_ns", q.step.bytes_per_ns, number_range_format{1e-6, max_rate});
  v.field("launch_ns", q.step.min_kernel_ns, up_to_most);
  v.field("between_ns", q.step.kernel_gap_ns, up_to_most);
  v.field("link_bytes_per_ns", q.step.link_bytes_per_ns, number_range_format{0, max_rate});
  v.field("copy_ns", q.step.copy_latency_ns, up_to_most);
  v.field("copy_drag", q.step.kernel_slowdown, number_range_format{0, 1});
  v.field("host_kernel_ns", q.step.kernel_launch_cpu_ns, up_to_most);
  v.field("host_copy_ns", q.step.copy_launch_cpu_ns, up_to_most);
  v.field("fused", q.step.fuses_kernels);
  v.field("stores_gradients", q.step.stores_gradients);
  v.field("begin", q.default_saved, plain_format{0, no_node - 1});
  v.field("work", q.work, up_to_most);
}

torch_question torch_question_from(const std::string& text, const std::string& source) {
  const json_place at{source, ""};
  torch_question q;
  read_object(q, parse_json(text, source), at);
  const auto& nodes = q.step.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const json_place node = place_of_field(place_of_field(at, "nodes"), i);
    check_refers_backwards(nodes[i].inputs, i, place_of_field(node, "inputs"));
    check_refers_backwards(nodes[i].shifted_inputs, i, place_of_field(node, "shifted"));
  }
  check_refers_backwards(q.default_saved, nodes.size(), place_of_field(at, "begin"));
  return q;
}

std::string to_json(const torch_plan& own, const torch_plan& made, std::int64_t min_peak) {
  return dump_line(json{{"begin", estimate_of(own)}, {"plan", estimate_of(made)}, {"bound", min_peak}});
}

}  // namespace um
