#include "core/operands.hpp"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

namespace um {
namespace {

using defect = std::optional<std::string>;

// The tensors of one operator's operands.
struct operands {
  const graph& g;
  const op& o;
  const tensor& in(std::size_t i) const { return g.tensors[o.in[i]]; }
  const tensor& out(std::size_t i) const { return g.tensors[o.out[i]]; }
};

constexpr std::size_t most_operands = 1024, most_stepped = 1 << 16;
struct arity {
  std::size_t least_in, most_in, least_out, most_out;
};
constexpr arity arity_exactly(std::size_t in, std::size_t out) {
  return {in, in, out, out};
}
constexpr arity arity_between(std::size_t least_in, std::size_t most_in, std::size_t least_out,
                              std::size_t most_out) {
  return {least_in, most_in, least_out, most_out};
}

arity arity_of(const op_attributes& what) {
  return std::visit(
      overloaded{[](const convolution&) { return arity_between(2, 3, 1, 1); },
                 [](const linear&) { return arity_between(2, 3, 1, 1); },
                 [](const linear_backward_filter&) { return arity_between(2, 2, 1, 2); },
                 []<kind_among<bias_backward, relu, cast, global_average_pool, global_average_pool_backward,
                               average_pool, average_pool_backward>
                        Kind>(const Kind&) { return arity_exactly(1, 1); },
                 [](const relu_bias_backward&) { return arity_exactly(2, 2); },
                 [](const max_pool& a) { return a.relu ? arity_exactly(2, 2) : arity_exactly(1, 2); },
                 [](const max_pool_backward& a) {
                   const std::size_t in = a.forward.relu ? 3 : 2;
                   return arity_between(in, in, 1, 2);
                 },
                 [](const batch_norm&) { return arity_between(3, 4, 3, 3); },
                 [](const normalize&) { return arity_between(5, 6, 1, 1); },
                 [](const batch_norm_backward& a) {
                   return arity_exactly(6 + (a.two_gradients ? 1 : 0) + (a.relu && a.residual ? 1 : 0),
                                        a.residual ? 4 : 3);
                 },
                 []<kind_among<softmax_cross_entropy, softmax_cross_entropy_gradient> Loss>(const Loss&) {
                   return arity_exactly(2, 2);
                 },
                 [](const concat&) { return arity_between(2, most_operands, 1, 1); },
                 [](const concat_backward&) { return arity_between(1, 1, 2, most_operands); },
                 [](const optimizer_step&) { return arity_between(2, most_stepped, 1, most_stepped); },
                 [](const opaque&) { return arity_between(0, most_operands, 1, most_operands); },
                 [](const auto&) { return arity_exactly(2, 1); }},
      what.value);
}

defect expect_shape(const tensor& t, const dims& wanted) {
  if (t.shape == wanted) return std::nullopt;
  return t.name + " is " + to_text(t.shape) + ", which does not fit: " + to_text(wanted) + " is wanted";
}

defect expect_type(const tensor& t, dtype wanted) {
  if (t.type == wanted) return std::nullopt;
  return t.name + " holds " + std::string(to_text(t.type)) + ", but " + std::string(to_text(wanted)) +
         " is wanted";
}

// The first defect that is not empty.
defect first_defect(std::initializer_list<defect> all) {
  for (const defect& d : all) {
    if (d) return d;
  }
  return std::nullopt;
}

// The first defect that `check` finds in one of them.
defect first_defect_of(const auto& all, const auto& check) {
  for (const auto& each : all) {
    if (defect d = check(each)) return d;
  }
  return std::nullopt;
}

defect expect_f32(std::initializer_list<const tensor*> all) {
  return first_defect_of(all, [](const tensor* t) { return expect_type(*t, dtype::f32); });
}

// Expects all tensors to have the same floating type.
defect expect_one_floating_type(std::initializer_list<const tensor*> all) {
  const tensor& first = **all.begin();
  if (!is_floating(first.type)) return expect_type(first, dtype::f32);
  return first_defect_of(all, [&](const tensor* t) { return expect_type(*t, first.type); });
}

defect expect_vector(const tensor& t, std::int64_t channels) {
  return first_defect({expect_f32({&t}), expect_shape(t, {1, channels, 1, 1})});
}

defect window_defect(std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w) {
  if (stride_h < 1 || stride_w < 1) return "a stride below 1";
  if (pad_h < 0 || pad_w < 0) return "a negative padding";
  return std::nullopt;
}

std::int64_t output_extent(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t pad) {
  const std::int64_t room = extent + 2 * pad - window;
  return room < 0 ? 0 : room / stride + 1;
}

defect convolution_shapes(const convolution& what, const tensor& x, const tensor& w, const tensor& y) {
  if (auto d = window_defect(what.stride_h, what.stride_w, what.pad_h, what.pad_w)) return d;
  if (what.groups < 1 || x.shape.c % what.groups != 0 || w.shape.n % what.groups != 0) {
    return "channels of " + x.name + " (" + std::to_string(x.shape.c) + ") and " + y.name + " (" +
           std::to_string(w.shape.n) + ") do not fall into " + std::to_string(what.groups) + " groups";
  }
  const dims wanted{x.shape.n, w.shape.n, output_extent(x.shape.h, w.shape.h, what.stride_h, what.pad_h),
                    output_extent(x.shape.w, w.shape.w, what.stride_w, what.pad_w)};
  return first_defect(
      {expect_shape(w, {w.shape.n, x.shape.c / what.groups, w.shape.h, w.shape.w}), expect_shape(y, wanted)});
}

// Checks x * w -> y, for the forward operator and, with gradients in place of x and y, for the backward one.
defect convolution_defect(const convolution& what, const tensor& x, const tensor& w, const tensor& y) {
  return first_defect({expect_one_floating_type({&x, &w, &y}), convolution_shapes(what, x, w, y)});
}
defect filter_defect(const convolution& what, const tensor& x, const tensor& dw, const tensor& dy) {
  return first_defect(
      {expect_one_floating_type({&x, &dy}), expect_f32({&dw}), convolution_shapes(what, x, dw, dy)});
}
defect expect_no_relu(const convolution& forward) {
  if (forward.relu) return "is of the product alone and can have no ReLU";
  return std::nullopt;
}

defect linear_shapes(const tensor& x, const tensor& w, const tensor& y) {
  return first_defect({expect_shape(w, {w.shape.n, x.shape.c, x.shape.h, x.shape.w}),
                       expect_shape(y, {x.shape.n, w.shape.n, 1, 1})});
}
defect linear_defect(const tensor& x, const tensor& w, const tensor& y) {
  return first_defect({expect_one_floating_type({&x, &w, &y}), linear_shapes(x, w, y)});
}

defect bias_defect(const operands& all) {
  if (all.o.in.size() < 3) return std::nullopt;
  return expect_vector(all.in(2), all.out(0).shape.c);
}

defect linear_filter_defect(const operands& all) {
  return first_defect({expect_one_floating_type({&all.in(0), &all.in(1)}), expect_f32({&all.out(0)}),
                       linear_shapes(all.in(0), all.out(0), all.in(1)),
                       all.o.out.size() > 1 ? expect_vector(all.out(1), all.in(1).shape.c) : std::nullopt});
}

// Whether pooling can give this result extent. The last window may be dropped if it extends beyond the input.
bool is_pooled_extent(std::int64_t window, std::int64_t stride, std::int64_t pad, std::int64_t extent,
                      std::int64_t result) {
  const std::int64_t room = extent + 2 * pad - window;
  const std::int64_t floor_rule = room < 0 ? 0 : room / stride + 1;
  const std::int64_t ceil_rule = room < 0 ? 1 : (room + stride - 1) / stride + 1;
  return (result == floor_rule || result == ceil_rule) && (result - 1) * stride - pad < extent;
}

defect pooled_defect(const tensor& x, const tensor& y) {
  return x.name + " of " + to_text(x.shape) + " does not pool to " + to_text(y.shape);
}

defect pool_defect(const max_pool& what, const tensor& x, const tensor& y, const tensor& index) {
  if (auto d = window_defect(what.stride, what.stride, what.pad, what.pad)) return d;
  if (what.window < 1 || what.window > 256) return "a pooling window outside 1 to 256";
  if (what.pad >= what.window) return "a padding that is not smaller than the pooling window";
  const auto pools = [&](std::int64_t extent, std::int64_t result) {
    return is_pooled_extent(what.window, what.stride, what.pad, extent, result);
  };
  if (!pools(x.shape.h, y.shape.h) || !pools(x.shape.w, y.shape.w)) return pooled_defect(x, y);
  const dtype index_type = what.window <= 16 ? dtype::u8 : dtype::u16;
  return first_defect({expect_one_floating_type({&x, &y}),
                       expect_shape(y, {x.shape.n, x.shape.c, y.shape.h, y.shape.w}),
                       expect_type(index, index_type), expect_shape(index, y.shape)});
}

defect pool_forward_defect(const max_pool& what, const operands& all) {
  return first_defect({pool_defect(what, all.in(0), all.out(0), all.out(1)),
                       what.relu ? expect_vector(all.in(1), all.in(0).shape.c) : std::nullopt});
}

defect pool_backward_defect(const max_pool_backward& what, const operands& all) {
  const tensor& dy = all.in(0);
  return first_defect({pool_defect(what.forward, all.out(0), dy, all.in(1)),
                       what.forward.relu ? expect_one_floating_type({&dy, &all.in(2)}) : std::nullopt,
                       what.forward.relu ? expect_shape(all.in(2), dy.shape) : std::nullopt,
                       all.o.out.size() > 1 ? expect_vector(all.out(1), dy.shape.c) : std::nullopt});
}

defect average_pool_defect(const average_pool& a, const tensor& x, const tensor& y) {
  if (auto d = window_defect(a.stride_h, a.stride_w, a.pad_h, a.pad_w)) return d;
  if (a.window_h < 1 || a.window_w < 1) return "a pooling window below 1";
  if (a.pad_h >= a.window_h || a.pad_w >= a.window_w)
    return "a padding that is not smaller than the pooling window";
  if (!is_pooled_extent(a.window_h, a.stride_h, a.pad_h, x.shape.h, y.shape.h) ||
      !is_pooled_extent(a.window_w, a.stride_w, a.pad_w, x.shape.w, y.shape.w)) {
    return pooled_defect(x, y);
  }
  return first_defect(
      {expect_one_floating_type({&x, &y}), expect_shape(y, {x.shape.n, x.shape.c, y.shape.h, y.shape.w})});
}

// Checks that `whole` consists of the channels of all `parts`, one after the other.
defect concat_defect(const tensor& whole, const std::vector<tensor_id>& parts, const graph& g) {
  std::int64_t channels = 0;
  for (const tensor_id id : parts) {
    const tensor& t = g.tensors[id];
    const dims wanted{whole.shape.n, t.shape.c, whole.shape.h, whole.shape.w};
    if (auto d = first_defect({expect_one_floating_type({&whole, &t}), expect_shape(t, wanted)})) return d;
    channels += t.shape.c;
  }
  return expect_shape(whole, {whole.shape.n, channels, whole.shape.h, whole.shape.w});
}

// `relu6` needs `relu`.
defect relu6_defect(const auto& what) {
  if (what.relu6 && !what.relu) return "is capped without a ReLU";
  return std::nullopt;
}

defect labels_defect(const tensor& labels, const tensor& logits) {
  return first_defect({expect_type(labels, dtype::i32), expect_shape(labels, {logits.shape.n, 1, 1, 1})});
}

// Checks logits, labels -> loss, and a tensor of the logits' shape.
defect softmax_defect(const operands& all) {
  const tensor& logits = all.in(0);
  return first_defect({expect_one_floating_type({&logits, &all.out(1)}), expect_f32({&all.out(0)}),
                       expect_shape(logits, {logits.shape.n, logits.shape.c, 1, 1}),
                       labels_defect(all.in(1), logits), expect_shape(all.out(0), {1, 1, 1, 1}),
                       expect_shape(all.out(1), logits.shape)});
}

defect softmax_backward_defect(const operands& all) {
  const tensor& probabilities = all.in(0);
  return first_defect({expect_one_floating_type({&probabilities, &all.out(0)}),
                       labels_defect(all.in(1), probabilities),
                       expect_shape(all.out(0), probabilities.shape)});
}

// Expects `like` to have x's type and shape.
defect expect_same_shape_and_type(const tensor& x, const tensor& like) {
  return first_defect({expect_one_floating_type({&x, &like}), expect_shape(like, x.shape)});
}

defect pointwise_defect(const operands& all) {
  return first_defect_of(
      all.o.in, [&](tensor_id id) { return expect_same_shape_and_type(all.out(0), all.g.tensors[id]); });
}

defect expect_vectors(const tensor& x, std::initializer_list<const tensor*> all) {
  return first_defect_of(all, [&](const tensor* t) { return expect_vector(*t, x.shape.c); });
}

defect batch_norm_defect(const operands& all) {
  const tensor& x = all.in(0);
  return first_defect({expect_same_shape_and_type(x, all.out(0)),
                       expect_vectors(x, {&all.in(1), &all.in(2), &all.out(1), &all.out(2)}),
                       all.o.in.size() > 3 ? expect_same_shape_and_type(x, all.in(3)) : std::nullopt});
}

defect normalize_defect(const operands& all) {
  const tensor& x = all.in(0);
  return first_defect({expect_same_shape_and_type(x, all.out(0)),
                       expect_vectors(x, {&all.in(1), &all.in(2), &all.in(3), &all.in(4)}),
                       all.o.in.size() > 5 ? expect_same_shape_and_type(x, all.in(5)) : std::nullopt});
}

defect batch_norm_backward_defect(const operands& all) {
  const tensor& x = all.in(0);
  return first_defect(
      {first_defect_of(std::span(all.o.in).subspan(5),
                       [&](tensor_id id) { return expect_same_shape_and_type(x, all.g.tensors[id]); }),
       expect_vectors(x, {&all.in(1), &all.in(2), &all.in(3), &all.in(4), &all.out(1), &all.out(2)}),
       expect_same_shape_and_type(x, all.out(0)),
       all.o.out.size() > 3 ? expect_same_shape_and_type(x, all.out(3)) : std::nullopt});
}

defect average_defect(const tensor& x, const tensor& y) {
  return first_defect({expect_one_floating_type({&x, &y}), expect_shape(y, {x.shape.n, x.shape.c, 1, 1})});
}

defect cast_defect(const operands& all) {
  for (const tensor* t : {&all.in(0), &all.out(0)}) {
    if (!is_floating(t->type)) return expect_type(*t, dtype::f32);
  }
  return expect_shape(all.in(0), all.out(0).shape);
}

// Tensors with more than one channel and more than one row or column must share one memory order.
defect memory_order_defect(const operands& all) {
  if (has_kind<opaque>(all.o)) return std::nullopt;
  const tensor* first = nullptr;
  for (const auto* side : {&all.o.in, &all.o.out}) {
    for (const tensor_id id : *side) {
      const tensor& t = all.g.tensors[id];
      if (t.shape.c == 1 || t.shape.h * t.shape.w == 1) continue;
      if (first == nullptr) first = &t;
      if (t.order != first->order) {
        return first->name + " lies in " + std::string(to_text(first->order)) + " and " + t.name + " in " +
               std::string(to_text(t.order));
      }
    }
  }
  return std::nullopt;
}

defect update_defect(const operands& all) {
  if (all.o.in[0] != all.o.out[0]) return "updates " + all.in(0).name + " but writes " + all.out(0).name;
  if (all.o.is_repeatable) return "updates in place, so it is not repeatable";
  return first_defect({expect_f32({&all.in(0), &all.in(1)}), pointwise_defect(all)});
}

defect step_defect(const optimizer_step& a, const operands& all) {
  if (a.moments > 2) return "has more than two moments";
  if (a.moments == 2 && (a.beta1 >= 1 || a.beta2 >= 1))
    return "has a beta of 1, which leaves no value to correct";
  if (all.o.is_repeatable) return "updates in place, so it is not repeatable";
  std::size_t in = 0, out = 0;
  const auto moments = static_cast<std::size_t>(a.moments);
  for (const stepped_parameter& p : stepped_parameters(all.g, all.o)) {
    const std::size_t states = moments + (p.has_master ? 1 : 0);
    in = p.parameter_index + 2 + states, out = p.output_index + 1 + states;
    if (in > all.o.in.size() || out > all.o.out.size())
      return "lacks states of " + all.in(p.parameter_index).name;
    if (all.o.in[p.parameter_index] != all.o.out[p.output_index]) {
      return "updates " + all.in(p.parameter_index).name + " but writes " + all.out(p.output_index).name;
    }
    if (!p.has_master) {
      if (auto d = expect_f32({&all.in(p.parameter_index)})) return d;
    }
    for (std::size_t i = 1; i < 2 + states; ++i) {
      if (auto d =
              first_defect({expect_f32({&all.in(p.parameter_index + i)}),
                            expect_shape(all.in(p.parameter_index + i), all.in(p.parameter_index).shape)}))
        return d;
      if (i > 1 && all.o.in[p.parameter_index + i] != all.o.out[p.output_index + i - 1]) {
        return "updates " + all.in(p.parameter_index + i).name + " but writes " +
               all.out(p.output_index + i - 1).name;
      }
    }
  }
  const std::size_t counters = a.moments == 2 ? 1 : 0;
  if (all.o.in.size() != in + counters || all.o.out.size() != out + counters) {
    return "has operands that belong to no parameter";
  }
  if (counters == 0) return std::nullopt;
  if (all.o.in[in] != all.o.out[out])
    return "counts in " + all.in(in).name + " but writes " + all.out(out).name;
  return first_defect({expect_type(all.in(in), dtype::i32), expect_shape(all.in(in), {1, 1, 1, 1})});
}

// Checks that all operands that are cut have the same batch and that there is one.
defect opaque_cut_defect(const opaque& a, const operands& all) {
  if (a.in.empty() && a.out.empty()) return std::nullopt;
  if (a.in.size() != all.o.in.size() || a.out.size() != all.o.out.size()) {
    return "says how " + std::to_string(a.in.size()) + " inputs and " + std::to_string(a.out.size()) +
           " outputs are cut, but has " + std::to_string(all.o.in.size()) + " and " +
           std::to_string(all.o.out.size());
  }
  const tensor* batch = nullptr;
  const auto check = [&](batch_cut how, const tensor& t, batch_cut never) -> defect {
    if (how == never) return t.name + " cannot be cut as " + std::string(to_text(how));
    if (how != batch_cut::part) return std::nullopt;
    if (batch == nullptr) batch = &t;
    if (t.shape.n == batch->shape.n) return std::nullopt;
    return batch->name + " and " + t.name + " are cut along the batch but have " +
           std::to_string(batch->shape.n) + " and " + std::to_string(t.shape.n) + " samples";
  };
  for (std::size_t i = 0; i < a.in.size(); ++i) {
    if (auto d = check(a.in[i], all.in(i), batch_cut::sum)) return d;
  }
  for (std::size_t i = 0; i < a.out.size(); ++i) {
    if (auto d = check(a.out[i], all.out(i), batch_cut::whole)) return d;
  }
  if (batch == nullptr) return "can be cut, but along none of its operands";
  return std::nullopt;
}

defect opaque_defect(const opaque& a, const operands& all) {
  if (a.label.empty()) return "has no label";
  if (a.duration && *a.duration < 0) return "takes less than no time";
  return opaque_cut_defect(a, all);
}

defect operands_defect(const operands& all) {
  return std::visit(
      overloaded{
          [&](const convolution& a) {
            return first_defect({convolution_defect(a, all.in(0), all.in(1), all.out(0)), bias_defect(all)});
          },
          [&](const convolution_backward_data& a) {
            return first_defect(
                {expect_no_relu(a.forward), convolution_defect(a.forward, all.out(0), all.in(0), all.in(1))});
          },
          [&](const convolution_backward_filter& a) {
            return first_defect(
                {expect_no_relu(a.forward), filter_defect(a.forward, all.in(0), all.out(0), all.in(1))});
          },
          [&](const bias_backward&) {
            return first_defect(
                {expect_one_floating_type({&all.in(0)}), expect_vector(all.out(0), all.in(0).shape.c)});
          },
          [&](const relu_bias_backward&) {
            return first_defect({pointwise_defect(all), expect_vector(all.out(1), all.out(0).shape.c)});
          },
          [&]<kind_among<relu, relu_backward, add> Pointwise>(const Pointwise&) {
            return pointwise_defect(all);
          },
          [&](const max_pool& a) { return pool_forward_defect(a, all); },
          [&](const max_pool_backward& a) { return pool_backward_defect(a, all); },
          [&](const average_pool& a) { return average_pool_defect(a, all.in(0), all.out(0)); },
          [&](const average_pool_backward& a) {
            return average_pool_defect(a.forward, all.out(0), all.in(0));
          },
          [&](const concat&) { return concat_defect(all.out(0), all.o.in, all.g); },
          [&](const concat_backward&) { return concat_defect(all.in(0), all.o.out, all.g); },
          [&](const linear&) {
            return first_defect({linear_defect(all.in(0), all.in(1), all.out(0)), bias_defect(all)});
          },
          [&](const linear_backward_data&) { return linear_defect(all.out(0), all.in(0), all.in(1)); },
          [&](const linear_backward_filter&) { return linear_filter_defect(all); },
          [&](const batch_norm& a) { return first_defect({relu6_defect(a), batch_norm_defect(all)}); },
          [&](const normalize& a) { return first_defect({relu6_defect(a), normalize_defect(all)}); },
          [&](const batch_norm_backward& a) {
            return first_defect({relu6_defect(a), batch_norm_backward_defect(all)});
          },
          [&](const global_average_pool&) { return average_defect(all.in(0), all.out(0)); },
          [&](const global_average_pool_backward&) { return average_defect(all.out(0), all.in(0)); },
          [&](const cast&) { return cast_defect(all); },
          [&]<kind_among<softmax_cross_entropy, softmax_cross_entropy_gradient> Loss>(const Loss&) {
            return softmax_defect(all);
          },
          [&](const softmax_cross_entropy_backward&) { return softmax_backward_defect(all); },
          [&](const sgd_update&) { return update_defect(all); },
          [&](const optimizer_step& a) { return step_defect(a, all); },
          [&](const opaque& a) { return opaque_defect(a, all); }},
      all.o.attributes.value);
}

defect arity_defect(const op& o) {
  const arity wanted = arity_of(o.attributes);
  const auto counts = [](std::size_t least, std::size_t most) {
    if (most == least) return std::to_string(least);
    return std::to_string(least) + (most == least + 1 ? " or " : " to ") + std::to_string(most);
  };
  if (o.in.size() < wanted.least_in || o.in.size() > wanted.most_in || o.out.size() < wanted.least_out ||
      o.out.size() > wanted.most_out) {
    return "takes " + counts(wanted.least_in, wanted.most_in) + " inputs and " +
           counts(wanted.least_out, wanted.most_out) + " outputs, not " + std::to_string(o.in.size()) +
           " and " + std::to_string(o.out.size());
  }
  return std::nullopt;
}

// Checks that every operand is a tensor of the graph.
defect ids_defect(const graph& g, const op& o) {
  for (const auto* ids : {&o.in, &o.out}) {
    for (const tensor_id id : *ids) {
      if (id >= g.tensors.size()) {
        return "names tensor " + std::to_string(id) + " of " + std::to_string(g.tensors.size());
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<stepped_parameter> stepped_parameters(const graph& g, const op& o) {
  const auto moments = static_cast<std::size_t>(std::get<optimizer_step>(o.attributes.value).moments);
  const auto counters = static_cast<std::size_t>(moments == 2);
  std::vector<stepped_parameter> all;
  for (std::size_t in = 0, out = 0; in + 1 < o.in.size() - std::min(counters, o.in.size());) {
    const bool has_master = g.tensors[o.in[in]].type == dtype::bf16;
    all.push_back({in, out, has_master});
    in += 2 + moments + (has_master ? 1 : 0);
    out += 1 + moments + (has_master ? 1 : 0);
  }
  return all;
}

std::optional<std::string> missing_operands_defect(const graph& g, const op& o) {
  if (auto d = arity_defect(o)) return d;
  return ids_defect(g, o);
}

std::optional<std::string> operands_defect(const graph& g, const op& o) {
  const operands all{g, o};
  if (auto d = operands_defect(all)) return d;
  return memory_order_defect(all);
}

}  // namespace um
