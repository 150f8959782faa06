#include "core/flops.hpp"

#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "core/operands.hpp"

namespace um {
namespace {

[[noreturn]] void refuse_overflow(const op& o) {
  throw std::overflow_error("operator " + o.name + " (" + std::string(kind_of(o.what)) +
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
    return checked_product(o, {elements(shape(id)), count});
  };
  const auto multiply = [&](tensor_id y, tensor_id w) {
    return checked_product(o, {2, elements(shape(y)), shape(w).c, shape(w).h, shape(w).w});
  };
  const auto biased = [&](std::uint64_t flops) {
    return o.in.size() > 2 ? checked_sum(o, flops, each(o.out[0], 1)) : flops;
  };
  const auto step = [&](std::int32_t moments) {
    constexpr std::array<std::int64_t, 3> of_an_element{2, 4, 14};
    std::uint64_t all = 0;
    for (const stepped_parameter& p : stepped_parameters(g, o)) {
      all = checked_sum(o, all, each(o.in[p.w], of_an_element.at(static_cast<std::size_t>(moments))));
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
          // sum and sum of squares; subtract, scale, shift
          [&](const batch_norm&) { return each(o.in[0], 6); },
          [&](const normalize&) { return each(o.in[0], 3); },
          [&](const batch_norm_backward&) { return each(o.in[0], 9); },
          [&](const global_average_pool&) { return each(o.in[0], 1); },
          [&](const linear&) { return biased(multiply(o.out[0], o.in[1])); },
          [&](const linear_backward_data&) { return multiply(o.in[1], o.in[0]); },
          [&](const linear_backward_filter&) { return multiply(o.in[1], o.out[0]); },
          // exponential, sum, division, logarithm; difference and mean
          [&](const softmax_cross_entropy&) { return each(o.in[0], 4); },
          [&](const softmax_cross_entropy_backward&) { return each(o.in[0], 2); },
          [&](const softmax_cross_entropy_gradient&) { return each(o.in[0], 6); },
          [&](const sgd_update&) { return each(o.out[0], 2); },
          [&](const optimizer_step& a) { return step(a.moments); }, [](const opaque& a) { return a.flops; },
          [&](const auto&) { return each(o.out[0], 1); }},
      o.what);
}

}  // namespace um
