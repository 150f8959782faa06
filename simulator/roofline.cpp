#include "simulator/roofline.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/access.hpp"
#include "core/errors.hpp"
#include "core/memory_plan.hpp"
#include "simulator/driver_clock.hpp"

namespace um {
namespace {

struct named_rate {
  std::uint64_t per_second = 0;
  std::string_view name;
};

// The rate at which a machine computes matrix products of that precision.
named_rate matrix_rate_of(precision arithmetic, const machine& on) {
  switch (arithmetic) {
    case precision::fp32:
      return {on.fp32_flops_per_s, "fp32_flops_per_s"};
    case precision::tf32:
      return {on.tf32_flops_per_s, "tf32_flops_per_s"};
    case precision::bf16:
      return {on.bf16_flops_per_s, "bf16_flops_per_s"};
  }
  return {};
}

template <class T, class... Kinds>
constexpr bool is_one_of = (std::is_same_v<T, Kinds> || ...);

// Whether the operator is a convolution or a fully connected layer, which run on matrix units if there are
// any.
bool is_matrix_product(const op& o) {
  return std::visit(
      []<class T>(const T&) {
        return is_one_of<T, convolution, convolution_backward_data, convolution_backward_filter, linear,
                         linear_backward_data, linear_backward_filter>;
      },
      o.attributes.value);
}

// Height of a convolution's filter; 0 for other operators.
std::int64_t filter_height_of(const graph& g, const op& o) {
  const auto height = [&](tensor_id w) { return g.tensors[w].shape.h; };
  return std::visit(overloaded{[&](const convolution&) { return height(o.in[1]); },
                               [&](const convolution_backward_data&) { return height(o.in[0]); },
                               [&](const convolution_backward_filter&) { return height(o.out[0]); },
                               [](const auto&) { return std::int64_t{0}; }},
                    o.attributes.value);
}

bool is_grouped(const op& o) {
  return std::visit(overloaded{[](const convolution& a) { return a.groups > 1; },
                               [](const convolution_backward_data& a) { return a.forward.groups > 1; },
                               [](const convolution_backward_filter& a) { return a.forward.groups > 1; },
                               [](const auto&) { return false; }},
                    o.attributes.value);
}

// Operations that matrix units perform for a convolution of `flops` operations. They compute tiles of many
// output channels, and fewer than 96 take the time of 96: fitted to 3 x 3 filters with 32 to 128 channels in
// bf16 and tf32, measured on H200s and H100s. Depthwise convolutions run on other units.
std::uint64_t tile_padded_flops(const graph& g, const op& o, std::uint64_t flops) {
  constexpr std::int64_t least_channels = 96;
  const dims& out = g.tensors[o.out[0]].shape;
  const std::int64_t channels =
      std::visit(overloaded{[&](const convolution&) { return out.c; },
                            [&](const convolution_backward_data&) { return out.c; },
                            [&](const convolution_backward_filter&) { return out.n; },
                            [](const auto&) { return least_channels; }},
                 o.attributes.value);
  if (g.arithmetic == precision::fp32 || is_grouped(o) || channels >= least_channels) return flops;
  return flops * static_cast<std::uint64_t>(least_channels) / static_cast<std::uint64_t>(channels);
}

// Speed in percent of the roofline rate. Above 100 for algorithms that save multiplications, such as
// Winograd's.
std::int64_t speed_percent_of(const graph& g, const op& o, const machine& on) {
  for (const operator_speed& p : on.operators) {
    if (p.kind != kind_of(o.attributes) || p.precision != to_text(g.arithmetic)) continue;
    if (p.filter == 0 || p.filter == filter_height_of(g, o)) return static_cast<std::int64_t>(p.percent);
  }
  return 100;
}

// Passes over the data of a depthwise convolution. Fitted to the 51 of MobileNetV2 and their gradients in
// bf16 on an H100.
constexpr nanoseconds passes_of_depthwise = 2;

bool is_depthwise(const graph& g, const op& o) {
  const auto has_one_channel = [&](tensor_id w) { return g.tensors[w].shape.c == 1; };
  return is_grouped(o) &&
         std::visit(overloaded{[&](const convolution&) { return has_one_channel(o.in[1]); },
                               [&](const convolution_backward_data&) { return has_one_channel(o.in[0]); },
                               [&](const convolution_backward_filter&) { return has_one_channel(o.out[0]); },
                               [](const auto&) { return false; }},
                    o.attributes.value);
}

op_cost estimate(const graph& g, const machine& on, const compute& c);

// Uses the figures that the operator itself states; a part takes its share of them.
op_cost estimate(const graph& g, const machine& on, const compute& c, const opaque& a) {
  const op& o = g.ops[c.op];
  const auto share = [&](std::uint64_t total) { return share_of(total, g, o, c.part); };
  if (a.duration) {
    const nanoseconds launch = std::min(on.launch_ns, *a.duration);
    const auto rest = static_cast<std::uint64_t>(*a.duration - launch);
    return {launch + static_cast<nanoseconds>(share(rest)), a.workspace_bytes, "opaque"};
  }
  const named_rate r = matrix_rate_of(a.products ? g.arithmetic : precision::fp32, on);
  const nanoseconds arithmetic = time_for(share(a.flops), r.per_second, on, r.name);
  const nanoseconds memory = time_for(share(a.bytes), on.device_bytes_per_s, on, "device_bytes_per_s");
  return {std::max(arithmetic, memory) + on.launch_ns, a.workspace_bytes, "opaque"};
}

// Assumes the speed of the first run, but at least the time of its memory traffic.
op_cost estimate_cheap_recomputation(const graph& g, const machine& on, compute c) {
  const work w = work_of(g, operator_of(g, c), c.part);
  const double share = cheap_recomputation_share(g, g.ops[c.op]);
  c.cheap_recompute = false;
  const nanoseconds first = estimate(g, on, c).time - on.launch_ns;
  const nanoseconds memory = time_for(w.read + w.written, on.device_bytes_per_s, on, "device_bytes_per_s");
  return {std::max(static_cast<nanoseconds>(static_cast<double>(first) * share), memory) + on.launch_ns, 0,
          "roofline"};
}

op_cost estimate(const graph& g, const machine& on, const compute& c) {
  if (c.cheap_recompute) return estimate_cheap_recomputation(g, on, c);
  const op& o = g.ops.at(c.op);
  if (const auto* a = std::get_if<opaque>(&o.attributes.value)) return estimate(g, on, c, *a);
  const work w = work_of(g, o, c.part);
  const named_rate r = matrix_rate_of(is_matrix_product(o) ? g.arithmetic : precision::fp32, on);
  const nanoseconds arithmetic = time_for(tile_padded_flops(g, o, w.flops), r.per_second, on, r.name);
  const nanoseconds memory = time_for(w.read + w.written, on.device_bytes_per_s, on, "device_bytes_per_s");
  if (is_depthwise(g, o))
    return {std::max(arithmetic, memory * passes_of_depthwise) + on.launch_ns, 0, "roofline"};
  const nanoseconds computing = std::max(arithmetic, memory) * 100 / speed_percent_of(g, o, on);
  return {std::max(computing, memory) + on.launch_ns, 0,
          "roofline"};  // a speed above 100 % does not reduce memory traffic
}

}  // namespace

profile estimate(const graph& g, const machine& on) {
  const named_rate products = matrix_rate_of(g.arithmetic, on);
  if (g.arithmetic != precision::fp32 && products.per_second == 0) {
    throw unsupported("machine " + on.name + " does not compute in " + std::string(to_text(g.arithmetic)) +
                      " (" + std::string(products.name) + " is 0 in its file); use fp32 or another machine");
  }
  profile costs;
  costs.reserve(g.ops.size());
  for (op_id o = 0; o < g.ops.size(); ++o) costs.push_back(estimate(g, on, {o, {}}));
  return costs;
}

bool kernels_at_peak(const graph& g, const machine& on) {
  const auto is_measured = [&](const operator_speed& p) { return p.precision == to_text(g.arithmetic); };
  const auto names_its_time = [](const op& o) {
    const auto* a = std::get_if<opaque>(&o.attributes.value);
    return a != nullptr && a->duration.has_value();
  };
  return std::ranges::none_of(on.operators, is_measured) && !std::ranges::all_of(g.ops, names_its_time);
}

slice_costs make_slice_estimator(const graph& g, const machine& on) {
  std::vector<std::vector<std::pair<compute, op_cost>>> known(g.ops.size());
  return [&g, &on, known](const compute& c) mutable {
    std::vector<std::pair<compute, op_cost>>& of_one = known.at(c.op);
    const auto found = std::ranges::find(of_one, c, &std::pair<compute, op_cost>::first);
    if (found != of_one.end()) return found->second;
    return of_one.emplace_back(c, estimate(g, on, c)).second;
  };
}

graph with_opaque_durations(graph g, const machine& on) {
  for (op_id o = 0; o < g.ops.size(); ++o) {
    auto* const a = std::get_if<opaque>(&g.ops[o].attributes.value);
    if (a != nullptr && !a->duration) a->duration = estimate(g, on, {o, {}}, *a).time;
  }
  return g;
}

}  // namespace um
