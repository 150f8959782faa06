#include "core/kinds.hpp"

#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "core/operands.hpp"

namespace um::cutting {
namespace {

using enum operand_cut;

constexpr cuts_by_axis everywhere{part, part, part};
constexpr cuts_by_axis batch_or_channel{part, part, refused};
constexpr cuts_by_axis batch_only{part, refused, refused};
constexpr cuts_by_axis channel_vector{whole, part, whole};  // of an operand that is a vector over channels
constexpr cuts_by_axis batch_or_row{part, refused, part};
constexpr cuts_by_axis channel_only{refused, part, refused};
constexpr cuts_by_axis no_axis{refused, refused, refused};

struct cut_rules_visitor {
  const op& o;

  cut_rules for_all_operands(const cuts_by_axis& cuts) const {
    return {std::vector(o.in.size(), cuts), std::vector(o.out.size(), cuts), o.out[0]};
  }

  // In a grouped convolution, a part of the output channels does not read the same part of the input
  // channels.
  static cut_rules without_cuts_across_groups(cut_rules rule, const convolution& a) {
    if (a.groups == 1) return rule;
    for (cuts_by_axis& each : rule.outputs) each.channel = each.reduction = refused;
    return rule;
  }

  cut_rules operator()(const convolution& a) const {
    return without_cuts_across_groups(convolution_rules(a), a);
  }
  cut_rules convolution_rules(const convolution& a) const {
    return {
        {{part, whole, windows, channels}, {whole, filters, whole, channels}, {whole, part, whole, whole}},
        {{part, part, part, a.relu ? refused : sum}},
        o.out[0]};
  }
  cut_rules operator()(const convolution_backward_data& a) const {
    return without_cuts_across_groups(
        {{{whole, part, whole, filters}, {part, whole, overlapping_windows, channels}},
         {{part, part, part, sum}},
         o.out[0]},
        a.forward);
  }
  cut_rules operator()(const convolution_backward_filter& a) const {
    return without_cuts_across_groups({{{part, whole, windows, channels}, {part, part, part, whole}},
                                       {{sum, filters, sum, channels}},
                                       o.in[1]},
                                      a.forward);
  }
  cut_rules operator()(const bias_backward&) const { return {{everywhere}, {{sum, part, sum}}, o.in[0]}; }
  template <kind_among<relu, relu_backward, add> Pointwise>
  cut_rules operator()(const Pointwise&) const {
    return for_all_operands(everywhere);
  }
  cut_rules operator()(const relu_bias_backward&) const {
    return {{everywhere, everywhere}, {everywhere, {sum, part, sum}}, o.out[0]};
  }
  cut_rules operator()(const max_pool&) const {
    return {{{part, part, windows}, channel_vector}, {everywhere, everywhere}, o.out[0]};
  }
  // With a bias gradient, rows are not cut: it would count rows under overlapping windows twice.
  cut_rules operator()(const max_pool_backward&) const {
    constexpr cuts_by_axis gradient{part, part, overlapping_windows};
    const cuts_by_axis dx = o.out.size() > 1 ? batch_or_channel : everywhere;
    return {{gradient, gradient, gradient}, {dx, {sum, part, refused}}, o.out[0]};
  }
  cut_rules operator()(const average_pool&) const {
    return {{{part, part, windows}}, {everywhere}, o.out[0]};
  }
  cut_rules operator()(const average_pool_backward&) const {
    return {{{part, part, overlapping_windows}}, {everywhere}, o.out[0]};
  }
  template <kind_among<concat, concat_backward> Concat>
  cut_rules operator()(const Concat&) const {
    return for_all_operands(batch_or_row);
  }
  cut_rules operator()(const linear&) const {
    return {{{part, whole, refused}, {whole, filters, refused}, {whole, part, refused}},
            {batch_or_channel},
            o.out[0]};
  }
  cut_rules operator()(const linear_backward_data&) const {
    return {{{whole, part, refused}, {part, whole, refused}}, {batch_or_channel}, o.out[0]};
  }
  cut_rules operator()(const linear_backward_filter&) const {
    return {
        {{part, whole, refused}, batch_or_channel}, {{sum, filters, refused}, {sum, part, refused}}, o.in[1]};
  }
  // Their statistics need the whole batch.
  template <kind_among<batch_norm, batch_norm_backward> Norm>
  cut_rules operator()(const Norm&) const {
    return for_all_operands(channel_only);
  }
  cut_rules operator()(const normalize&) const {
    return {{everywhere, channel_vector, channel_vector, channel_vector, channel_vector, everywhere},
            {everywhere},
            o.out[0]};
  }
  template <kind_among<global_average_pool, global_average_pool_backward> Average>
  cut_rules operator()(const Average&) const {
    return for_all_operands(batch_or_channel);
  }
  template <kind_among<cast, softmax_cross_entropy_backward, sgd_update> Kind>
  cut_rules operator()(const Kind&) const {
    return for_all_operands(batch_only);
  }
  template <kind_among<softmax_cross_entropy, softmax_cross_entropy_gradient> Loss>
  cut_rules operator()(const Loss&) const {
    return {{batch_only, batch_only}, {{sum, refused, refused}, batch_only}, o.in[0]};
  }
  // The parameters share no axis, so no cut exists.
  cut_rules operator()(const optimizer_step&) const { return for_all_operands(no_axis); }
  cut_rules operator()(const opaque& a) const {
    if (a.out.empty()) return for_all_operands(no_axis);
    cut_rules rule{{}, {}, o.out[0]};
    const auto add = [&](std::vector<cuts_by_axis>& side, batch_cut how, tensor_id operand, bool& found) {
      const operand_cut along = how == batch_cut::part ? part : how == batch_cut::sum ? sum : whole;
      side.push_back({along, refused, refused});
      if (how == batch_cut::part && !found) rule.cut_tensor = operand;
      found = found || how == batch_cut::part;
    };
    bool found = false;
    for (std::size_t i = 0; i < a.out.size(); ++i) add(rule.outputs, a.out[i], o.out[i], found);
    for (std::size_t i = 0; i < a.in.size(); ++i) add(rule.inputs, a.in[i], o.in[i], found);
    return rule;
  }
};

}  // namespace

cut_rules cut_rules_of(const op& o) {
  return std::visit(cut_rules_visitor{o}, o.attributes.value);
}

}  // namespace um::cutting

namespace um {
namespace {

[[noreturn]] void refuse_overflow(const op& o) {
  throw std::overflow_error("operator " + o.name + " (" + std::string(kind_of(o.attributes)) +
                            ") takes more than 2^64 operations");
}

std::uint64_t checked_product(const op& o, std::initializer_list<std::int64_t> factors) {
  std::uint64_t result = 1;
  for (const std::int64_t factor : factors) {
    const auto next = checked_multiply(result, static_cast<std::uint64_t>(factor));
    if (!next) refuse_overflow(o);
    result = *next;
  }
  return result;
}

std::uint64_t checked_sum(const op& o, std::uint64_t a, std::uint64_t b) {
  const auto result = checked_add(a, b);
  if (!result) refuse_overflow(o);
  return *result;
}

}  // namespace

std::uint64_t flops_of(const graph& g, const op& o) {
  const auto shape = [&](tensor_id id) -> const dims& { return g.tensors[id].shape; };
  const auto each = [&](tensor_id id, std::int64_t count) {
    return checked_product(o, {element_count(shape(id)), count});
  };
  const auto multiply = [&](tensor_id y, tensor_id w) {
    return checked_product(o, {2, element_count(shape(y)), shape(w).c, shape(w).h, shape(w).w});
  };
  const auto biased = [&](std::uint64_t flops) {
    return o.in.size() > 2 ? checked_sum(o, flops, each(o.out[0], 1)) : flops;
  };
  const auto step = [&](std::int32_t moments) {
    constexpr std::array<std::int64_t, 3> of_an_element{2, 4, 14};
    std::uint64_t all = 0;
    for (const stepped_parameter& p : stepped_parameters(g, o)) {
      all = checked_sum(o, all,
                        each(o.in[p.parameter_index], of_an_element.at(static_cast<std::size_t>(moments))));
    }
    return all;
  };
  return std::visit(
      overloaded{
          [&](const convolution&) { return biased(multiply(o.out[0], o.in[1])); },
          [&](const convolution_backward_data&) { return multiply(o.in[1], o.in[0]); },
          [&](const convolution_backward_filter&) { return multiply(o.in[1], o.out[0]); },
          [&](const bias_backward&) { return each(o.in[0], 1); },
          [&](const max_pool& a) { return each(o.out[0], std::int64_t{a.window} * std::int64_t{a.window}); },
          [&](const max_pool_backward&) { return each(o.in[0], 1); },
          [&](const average_pool& a) {
            return each(o.out[0], std::int64_t{a.window_h} * std::int64_t{a.window_w});
          },
          [&](const average_pool_backward& a) {
            return each(o.in[0], std::int64_t{a.forward.window_h} * std::int64_t{a.forward.window_w});
          },
          [](const concat&) { return std::uint64_t{0}; },
          [](const concat_backward&) { return std::uint64_t{0}; },
          [&](const relu_bias_backward&) { return each(o.out[0], 2); },
          // sum, sum of squares (square and add), subtraction, scaling, shift
          [&](const batch_norm&) { return each(o.in[0], 6); },
          [&](const normalize&) { return each(o.in[0], 3); },
          [&](const batch_norm_backward&) { return each(o.in[0], 9); },
          [&](const global_average_pool&) { return each(o.in[0], 1); },
          [&](const linear&) { return biased(multiply(o.out[0], o.in[1])); },
          [&](const linear_backward_data&) { return multiply(o.in[1], o.in[0]); },
          [&](const linear_backward_filter&) { return multiply(o.in[1], o.out[0]); },
          // loss: exponential, sum, division, logarithm; its gradient: difference, mean
          [&](const softmax_cross_entropy&) { return each(o.in[0], 4); },
          [&](const softmax_cross_entropy_backward&) { return each(o.in[0], 2); },
          [&](const softmax_cross_entropy_gradient&) { return each(o.in[0], 6); },
          [&](const sgd_update&) { return each(o.out[0], 2); },
          [&](const optimizer_step& a) { return step(a.moments); }, [](const opaque& a) { return a.flops; },
          [&](const auto&) { return each(o.out[0], 1); }},
      o.attributes.value);
}

}  // namespace um
