#include "core/cutting.hpp"

namespace um::cutting {
namespace {

constexpr by_axis everywhere{touch::part, touch::part, touch::part};
constexpr by_axis batch_or_channel{touch::part, touch::part, touch::refused};
constexpr by_axis batch_only{touch::part, touch::refused, touch::refused};
constexpr by_axis all_of_it{touch::whole, touch::part, touch::whole};  // a vector over channels
constexpr by_axis batch_or_row{touch::part, touch::refused, touch::part};
constexpr by_axis channel_only{touch::refused, touch::part, touch::refused};

struct rules_by_kind {
  const op& o;

  // In a grouped convolution, a part of the output channels does not read the same part of the input
  // channels.
  static rules within_groups(rules rule, const convolution& a) {
    if (a.groups == 1) return rule;
    for (by_axis& each : rule.out) each.channel = each.reduction = touch::refused;
    return rule;
  }

  rules operator()(const convolution& a) const { return within_groups(of_convolution(a), a); }
  rules of_convolution(const convolution& a) const {
    return {{{touch::part, touch::whole, touch::windows, touch::channels},
             {touch::whole, touch::filters, touch::whole, touch::channels},
             {touch::whole, touch::part, touch::whole, touch::whole}},
            {{touch::part, touch::part, touch::part, a.relu ? touch::refused : touch::sum}},
            o.out[0]};
  }
  rules operator()(const convolution_backward_data& a) const {
    return within_groups({{{touch::whole, touch::part, touch::whole, touch::filters},
                           {touch::part, touch::whole, touch::meeting, touch::channels}},
                          {{touch::part, touch::part, touch::part, touch::sum}},
                          o.out[0]},
                         a.forward);
  }
  rules operator()(const convolution_backward_filter& a) const {
    return within_groups({{{touch::part, touch::whole, touch::windows, touch::channels},
                           {touch::part, touch::part, touch::part, touch::whole}},
                          {{touch::sum, touch::filters, touch::sum, touch::channels}},
                          o.in[1]},
                         a.forward);
  }
  rules operator()(const bias_backward&) const {
    return {{everywhere}, {{touch::sum, touch::part, touch::sum}}, o.in[0]};
  }
  rules operator()(const relu&) const { return {{everywhere}, {everywhere}, o.out[0]}; }
  rules operator()(const relu_backward&) const { return {{everywhere, everywhere}, {everywhere}, o.out[0]}; }
  rules operator()(const relu_bias_backward&) const {
    return {{everywhere, everywhere}, {everywhere, {touch::sum, touch::part, touch::sum}}, o.out[0]};
  }
  rules operator()(const max_pool&) const {
    return {{{touch::part, touch::part, touch::windows}, all_of_it}, {everywhere, everywhere}, o.out[0]};
  }
  // Overlapping windows would be counted twice in a bias gradient.
  rules operator()(const max_pool_backward&) const {
    constexpr by_axis gradient{touch::part, touch::part, touch::meeting};
    const by_axis dx = o.out.size() > 1 ? batch_or_channel : everywhere;
    return {{gradient, gradient, gradient}, {dx, {touch::sum, touch::part, touch::refused}}, o.out[0]};
  }
  rules operator()(const average_pool&) const {
    return {{{touch::part, touch::part, touch::windows}}, {everywhere}, o.out[0]};
  }
  rules operator()(const average_pool_backward&) const {
    return {{{touch::part, touch::part, touch::meeting}}, {everywhere}, o.out[0]};
  }
  rules operator()(const concat&) const {
    return {std::vector<by_axis>(o.in.size(), batch_or_row), {batch_or_row}, o.out[0]};
  }
  rules operator()(const concat_backward&) const {
    return {{batch_or_row}, std::vector<by_axis>(o.out.size(), batch_or_row), o.out[0]};
  }
  rules operator()(const linear&) const {
    return {{{touch::part, touch::whole, touch::refused},
             {touch::whole, touch::filters, touch::refused},
             {touch::whole, touch::part, touch::refused}},
            {batch_or_channel},
            o.out[0]};
  }
  rules operator()(const linear_backward_data&) const {
    return {{{touch::whole, touch::part, touch::refused}, {touch::part, touch::whole, touch::refused}},
            {batch_or_channel},
            o.out[0]};
  }
  rules operator()(const linear_backward_filter&) const {
    return {{{touch::part, touch::whole, touch::refused}, batch_or_channel},
            {{touch::sum, touch::filters, touch::refused}, {touch::sum, touch::part, touch::refused}},
            o.in[1]};
  }
  // Statistics are of the whole batch.
  rules operator()(const batch_norm&) const {
    return {{channel_only, channel_only, channel_only, channel_only},
            {channel_only, channel_only, channel_only},
            o.out[0]};
  }
  rules operator()(const normalize&) const {
    return {{everywhere, all_of_it, all_of_it, all_of_it, all_of_it, everywhere}, {everywhere}, o.out[0]};
  }
  rules operator()(const batch_norm_backward&) const {
    return {std::vector<by_axis>(o.in.size(), channel_only), std::vector<by_axis>(o.out.size(), channel_only),
            o.out[0]};
  }
  rules operator()(const add&) const { return {{everywhere, everywhere}, {everywhere}, o.out[0]}; }
  rules operator()(const global_average_pool&) const {
    return {{batch_or_channel}, {batch_or_channel}, o.out[0]};
  }
  rules operator()(const global_average_pool_backward&) const {
    return {{batch_or_channel}, {batch_or_channel}, o.out[0]};
  }
  rules operator()(const cast&) const { return {{batch_only}, {batch_only}, o.out[0]}; }
  rules operator()(const softmax_cross_entropy_gradient&) const {
    return {{batch_only, batch_only}, {{touch::sum, touch::refused, touch::refused}, batch_only}, o.in[0]};
  }
  rules operator()(const softmax_cross_entropy&) const {
    return {{batch_only, batch_only}, {{touch::sum, touch::refused, touch::refused}, batch_only}, o.in[0]};
  }
  rules operator()(const softmax_cross_entropy_backward&) const {
    return {{batch_only, batch_only}, {batch_only}, o.out[0]};
  }
  rules operator()(const sgd_update&) const { return {{batch_only, batch_only}, {batch_only}, o.out[0]}; }
  // Its parameters have no axis in common.
  rules operator()(const optimizer_step&) const { return uncut(); }
  rules uncut() const {
    constexpr by_axis no_axis{touch::refused, touch::refused, touch::refused};
    return {std::vector<by_axis>(o.in.size(), no_axis), std::vector<by_axis>(o.out.size(), no_axis),
            o.out[0]};
  }
  rules operator()(const opaque& a) const {
    if (a.out.empty()) return uncut();
    rules rule{{}, {}, o.out[0]};
    const auto add = [&](std::vector<by_axis>& side, batch_cut how, tensor_id operand, bool& found) {
      const touch along = how == batch_cut::part  ? touch::part
                          : how == batch_cut::sum ? touch::sum
                                                  : touch::whole;
      side.push_back({along, touch::refused, touch::refused});
      if (how == batch_cut::part && !found) rule.subject = operand;
      found = found || how == batch_cut::part;
    };
    bool found = false;
    for (std::size_t i = 0; i < a.out.size(); ++i) add(rule.out, a.out[i], o.out[i], found);
    for (std::size_t i = 0; i < a.in.size(); ++i) add(rule.in, a.in[i], o.in[i], found);
    return rule;
  }
};

}  // namespace

rules rules_of(const op& o) {
  return std::visit(rules_by_kind{o}, o.what);
}

}  // namespace um::cutting
