#include "core/graph.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

namespace um {
namespace {

using defect = std::optional<std::string>;

// --- what an operator expects of its operands ---

// The operands of one operator, for the rules below.
struct operands {
  const graph& g;
  const op& o;
  const tensor& in(std::size_t i) const { return g.tensors[o.in[i]]; }
  const tensor& out(std::size_t i) const { return g.tensors[o.out[i]]; }
};

constexpr std::size_t most_operands = 1024;
struct arity {
  std::size_t least_in, most_in, least_out, most_out;
};
constexpr arity exactly(std::size_t in, std::size_t out) {
  return {in, in, out, out};
}

arity arity_of(const op_attributes& what) {
  return std::visit(
      overloaded{[](const convolution&) {
                   return arity{2, 3, 1, 1};
                 },
                 [](const linear&) {
                   return arity{2, 3, 1, 1};
                 },
                 [](const linear_backward_filter&) {
                   return arity{2, 2, 1, 2};
                 },
                 [](const bias_backward&) { return exactly(1, 1); },
                 [](const relu&) { return exactly(1, 1); }, [](const cast&) { return exactly(1, 1); },
                 [](const global_average_pool&) { return exactly(1, 1); },
                 [](const global_average_pool_backward&) { return exactly(1, 1); },
                 [](const relu_bias_backward&) { return exactly(2, 2); },
                 [](const max_pool& a) { return a.relu ? exactly(2, 2) : exactly(1, 2); },
                 [](const max_pool_backward& a) {
                   const std::size_t in = a.forward.relu ? 3 : 2;
                   return arity{in, in, 1, 2};
                 },
                 [](const batch_norm&) {
                   return arity{3, 4, 3, 3};
                 },
                 [](const normalize&) {
                   return arity{5, 6, 1, 1};
                 },
                 [](const batch_norm_backward& a) {
                   return exactly(6 + (a.two_gradients ? 1 : 0) + (a.relu && a.residual ? 1 : 0),
                                  a.residual ? 4 : 3);
                 },
                 [](const softmax_cross_entropy&) { return exactly(2, 2); },
                 [](const softmax_cross_entropy_gradient&) { return exactly(2, 2); },
                 [](const opaque&) {
                   return arity{0, most_operands, 1, most_operands};
                 },
                 [](const auto&) { return exactly(2, 1); }},
      what);
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

// The first that is not empty. All are evaluated; all are cheap.
defect first_of(std::initializer_list<defect> all) {
  for (const defect& d : all) {
    if (d) return d;
  }
  return std::nullopt;
}

defect expect_f32(std::initializer_list<const tensor*> all) {
  for (const tensor* t : all) {
    if (auto d = expect_type(*t, dtype::f32)) return d;
  }
  return std::nullopt;
}

// All of one floating type.
defect expect_alike(std::initializer_list<const tensor*> all) {
  const tensor& first = **all.begin();
  if (!is_floating(first.type)) return expect_type(first, dtype::f32);
  for (const tensor* t : all) {
    if (auto d = expect_type(*t, first.type)) return d;
  }
  return std::nullopt;
}

defect expect_vector(const tensor& t, std::int64_t channels) {
  return first_of({expect_f32({&t}), expect_shape(t, {1, channels, 1, 1})});
}

defect window_defect(std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w) {
  if (stride_h < 1 || stride_w < 1) return "a stride below 1";
  if (pad_h < 0 || pad_w < 0) return "a negative padding";
  return std::nullopt;
}

std::int64_t convolved(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t pad) {
  const std::int64_t room = extent + 2 * pad - window;
  return room < 0 ? 0 : room / stride + 1;
}

defect convolution_shapes(const convolution& what, const tensor& x, const tensor& w, const tensor& y) {
  if (auto d = window_defect(what.stride_h, what.stride_w, what.pad_h, what.pad_w)) return d;
  const dims wanted{x.shape.n, w.shape.n, convolved(x.shape.h, w.shape.h, what.stride_h, what.pad_h),
                    convolved(x.shape.w, w.shape.w, what.stride_w, what.pad_w)};
  return first_of({expect_shape(w, {w.shape.n, x.shape.c, w.shape.h, w.shape.w}), expect_shape(y, wanted)});
}

// x * w -> y, for the forward operator and (with gradients in place of x and y) the backward one.
defect convolution_defect(const convolution& what, const tensor& x, const tensor& w, const tensor& y) {
  return first_of({expect_alike({&x, &w, &y}), convolution_shapes(what, x, w, y)});
}
defect filter_defect(const convolution& what, const tensor& x, const tensor& dw, const tensor& dy) {
  return first_of({expect_alike({&x, &dy}), expect_f32({&dw}), convolution_shapes(what, x, dw, dy)});
}
defect no_relu(const convolution& forward) {
  if (forward.relu) return "is of the product alone and can have no ReLU";
  return std::nullopt;
}

defect linear_shapes(const tensor& x, const tensor& w, const tensor& y) {
  return first_of({expect_shape(w, {w.shape.n, x.shape.c, x.shape.h, x.shape.w}),
                   expect_shape(y, {x.shape.n, w.shape.n, 1, 1})});
}
defect linear_defect(const tensor& x, const tensor& w, const tensor& y) {
  return first_of({expect_alike({&x, &w, &y}), linear_shapes(x, w, y)});
}

defect bias_defect(const operands& of) {
  if (of.o.in.size() < 3) return std::nullopt;
  return expect_vector(of.in(2), of.out(0).shape.c);
}

defect linear_filter_defect(const operands& of) {
  return first_of({expect_alike({&of.in(0), &of.in(1)}), expect_f32({&of.out(0)}),
                   linear_shapes(of.in(0), of.out(0), of.in(1)),
                   of.o.out.size() > 1 ? expect_vector(of.out(1), of.in(1).shape.c) : std::nullopt});
}

// Both rules for a last window that overhangs are right, as long as it meets the input.
bool pools_to(const max_pool& what, std::int64_t extent, std::int64_t result) {
  const std::int64_t room = extent + 2 * what.pad - what.window;
  const std::int64_t floor_rule = room < 0 ? 0 : room / what.stride + 1;
  const std::int64_t ceil_rule = room < 0 ? 1 : (room + what.stride - 1) / what.stride + 1;
  return (result == floor_rule || result == ceil_rule) && (result - 1) * what.stride - what.pad < extent;
}

defect pool_defect(const max_pool& what, const tensor& x, const tensor& y, const tensor& index) {
  if (auto d = window_defect(what.stride, what.stride, what.pad, what.pad)) return d;
  if (what.window < 1 || what.window > 256) return "a pooling window outside 1 to 256";
  if (what.pad >= what.window) return "a padding that is not smaller than the pooling window";
  if (!pools_to(what, x.shape.h, y.shape.h) || !pools_to(what, x.shape.w, y.shape.w)) {
    return x.name + " of " + to_text(x.shape) + " does not pool to " + to_text(y.shape);
  }
  const dtype index_type = what.window <= 16 ? dtype::u8 : dtype::u16;
  return first_of({expect_alike({&x, &y}), expect_shape(y, {x.shape.n, x.shape.c, y.shape.h, y.shape.w}),
                   expect_type(index, index_type), expect_shape(index, y.shape)});
}

defect pool_forward_defect(const max_pool& what, const operands& of) {
  return first_of({pool_defect(what, of.in(0), of.out(0), of.out(1)),
                   what.relu ? expect_vector(of.in(1), of.in(0).shape.c) : std::nullopt});
}

defect pool_backward_defect(const max_pool_backward& what, const operands& of) {
  const tensor& dy = of.in(0);
  return first_of({pool_defect(what.forward, of.out(0), dy, of.in(1)),
                   what.forward.relu ? expect_alike({&dy, &of.in(2)}) : std::nullopt,
                   what.forward.relu ? expect_shape(of.in(2), dy.shape) : std::nullopt,
                   of.o.out.size() > 1 ? expect_vector(of.out(1), dy.shape.c) : std::nullopt});
}

defect labels_defect(const tensor& labels, const tensor& logits) {
  return first_of({expect_type(labels, dtype::i32), expect_shape(labels, {logits.shape.n, 1, 1, 1})});
}

// logits, labels -> loss, and a tensor of the logits' shape.
defect softmax_defect(const operands& of) {
  const tensor& logits = of.in(0);
  return first_of({expect_alike({&logits, &of.out(1)}), expect_f32({&of.out(0)}),
                   expect_shape(logits, {logits.shape.n, logits.shape.c, 1, 1}),
                   labels_defect(of.in(1), logits), expect_shape(of.out(0), {1, 1, 1, 1}),
                   expect_shape(of.out(1), logits.shape)});
}

defect softmax_backward_defect(const operands& of) {
  const tensor& probabilities = of.in(0);
  return first_of({expect_alike({&probabilities, &of.out(0)}), labels_defect(of.in(1), probabilities),
                   expect_shape(of.out(0), probabilities.shape)});
}

defect bias_backward_defect(const operands& of) {
  return first_of({expect_alike({&of.in(0)}), expect_vector(of.out(0), of.in(0).shape.c)});
}

defect pointwise_defect(const operands& of) {
  for (const tensor_id id : of.o.in) {
    const tensor& t = of.g.tensors[id];
    if (auto d = first_of({expect_alike({&of.out(0), &t}), expect_shape(t, of.out(0).shape)})) return d;
  }
  return std::nullopt;
}

defect relu_bias_defect(const operands& of) {
  return first_of({pointwise_defect(of), expect_vector(of.out(1), of.out(0).shape.c)});
}

// Operand `like` has x's type and shape.
defect expect_like(const tensor& x, const tensor& like) {
  return first_of({expect_alike({&x, &like}), expect_shape(like, x.shape)});
}

defect expect_vectors(const tensor& x, std::initializer_list<const tensor*> all) {
  for (const tensor* t : all) {
    if (auto d = expect_vector(*t, x.shape.c)) return d;
  }
  return std::nullopt;
}

defect batch_norm_defect(const operands& of) {
  const tensor& x = of.in(0);
  return first_of({expect_like(x, of.out(0)),
                   expect_vectors(x, {&of.in(1), &of.in(2), &of.out(1), &of.out(2)}),
                   of.o.in.size() > 3 ? expect_like(x, of.in(3)) : std::nullopt});
}

defect normalize_defect(const operands& of) {
  const tensor& x = of.in(0);
  return first_of({expect_like(x, of.out(0)), expect_vectors(x, {&of.in(1), &of.in(2), &of.in(3), &of.in(4)}),
                   of.o.in.size() > 5 ? expect_like(x, of.in(5)) : std::nullopt});
}

defect batch_norm_backward_defect(const operands& of) {
  const tensor& x = of.in(0);
  for (std::size_t i = 5; i < of.o.in.size(); ++i) {
    if (auto d = expect_like(x, of.in(i))) return d;
  }
  return first_of({expect_vectors(x, {&of.in(1), &of.in(2), &of.in(3), &of.in(4), &of.out(1), &of.out(2)}),
                   expect_like(x, of.out(0)),
                   of.o.out.size() > 3 ? expect_like(x, of.out(3)) : std::nullopt});
}

defect average_defect(const tensor& x, const tensor& y) {
  return first_of({expect_alike({&x, &y}), expect_shape(y, {x.shape.n, x.shape.c, 1, 1})});
}

defect cast_defect(const operands& of) {
  for (const tensor* t : {&of.in(0), &of.out(0)}) {
    if (!is_floating(t->type)) return expect_type(*t, dtype::f32);
  }
  return expect_shape(of.in(0), of.out(0).shape);
}

// Where extents lie beyond the channels, memory order matters, and has to be one.
defect order_of_memory_defect(const operands& of) {
  if (std::holds_alternative<opaque>(of.o.what)) return std::nullopt;
  const tensor* first = nullptr;
  for (const auto* side : {&of.o.in, &of.o.out}) {
    for (const tensor_id id : *side) {
      const tensor& t = of.g.tensors[id];
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

defect update_defect(const operands& of) {
  if (of.o.in[0] != of.o.out[0]) return "updates " + of.in(0).name + " but writes " + of.out(0).name;
  if (of.o.repeatable) return "updates in place, so it is not repeatable";
  return first_of({expect_f32({&of.in(0), &of.in(1)}), pointwise_defect(of)});
}

// The operands that are cut have one batch, and somewhere there is one.
defect opaque_cut_defect(const opaque& a, const operands& of) {
  if (a.in.empty() && a.out.empty()) return std::nullopt;
  if (a.in.size() != of.o.in.size() || a.out.size() != of.o.out.size()) {
    return "says how " + std::to_string(a.in.size()) + " inputs and " + std::to_string(a.out.size()) +
           " outputs are cut, but has " + std::to_string(of.o.in.size()) + " and " +
           std::to_string(of.o.out.size());
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
    if (auto d = check(a.in[i], of.in(i), batch_cut::sum)) return d;
  }
  for (std::size_t i = 0; i < a.out.size(); ++i) {
    if (auto d = check(a.out[i], of.out(i), batch_cut::whole)) return d;
  }
  if (batch == nullptr) return "can be cut, but along none of its operands";
  return std::nullopt;
}

defect opaque_defect(const opaque& a, const operands& of) {
  if (a.label.empty()) return "has no label";
  if (a.duration && *a.duration < 0) return "takes less than no time";
  return opaque_cut_defect(a, of);
}

defect operands_defect(const operands& of) {
  return std::visit(
      overloaded{
          [&](const convolution& a) {
            return first_of({convolution_defect(a, of.in(0), of.in(1), of.out(0)), bias_defect(of)});
          },
          [&](const convolution_backward_data& a) {
            return first_of(
                {no_relu(a.forward), convolution_defect(a.forward, of.out(0), of.in(0), of.in(1))});
          },
          [&](const convolution_backward_filter& a) {
            return first_of({no_relu(a.forward), filter_defect(a.forward, of.in(0), of.out(0), of.in(1))});
          },
          [&](const bias_backward&) { return bias_backward_defect(of); },
          [&](const relu&) { return pointwise_defect(of); },
          [&](const relu_backward&) { return pointwise_defect(of); },
          [&](const relu_bias_backward&) { return relu_bias_defect(of); },
          [&](const max_pool& a) { return pool_forward_defect(a, of); },
          [&](const max_pool_backward& a) { return pool_backward_defect(a, of); },
          [&](const linear&) {
            return first_of({linear_defect(of.in(0), of.in(1), of.out(0)), bias_defect(of)});
          },
          [&](const linear_backward_data&) { return linear_defect(of.out(0), of.in(0), of.in(1)); },
          [&](const linear_backward_filter&) { return linear_filter_defect(of); },
          [&](const batch_norm&) { return batch_norm_defect(of); },
          [&](const normalize&) { return normalize_defect(of); },
          [&](const batch_norm_backward&) { return batch_norm_backward_defect(of); },
          [&](const add&) { return pointwise_defect(of); },
          [&](const global_average_pool&) { return average_defect(of.in(0), of.out(0)); },
          [&](const global_average_pool_backward&) { return average_defect(of.out(0), of.in(0)); },
          [&](const cast&) { return cast_defect(of); },
          [&](const softmax_cross_entropy&) { return softmax_defect(of); },
          [&](const softmax_cross_entropy_backward&) { return softmax_backward_defect(of); },
          [&](const softmax_cross_entropy_gradient&) { return softmax_defect(of); },
          [&](const sgd_update&) { return update_defect(of); },
          [&](const opaque& a) { return opaque_defect(a, of); }},
      of.o.what);
}

// --- the graph around the operators ---

defect tensors_defect(const graph& g) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t total = 0;
  for (const tensor& t : g.tensors) {
    std::uint64_t bytes = size_of(t.type);
    for (const std::int64_t extent : {t.shape.n, t.shape.c, t.shape.h, t.shape.w}) {
      if (extent < 1) return "tensor " + t.name + " of shape " + to_text(t.shape) + " has an extent below 1";
      const auto product = checked_multiply(bytes, static_cast<std::uint64_t>(extent));
      if (!product || *product > most) {
        return "tensor " + t.name + " of shape " + to_text(t.shape) + " does not fit in 2^63 bytes";
      }
      bytes = *product;
    }
    total += bytes;
    if (total > most) return "all tensors together do not fit in 2^63 bytes, counted up to " + t.name;
  }
  return std::nullopt;
}

defect arity_defect(const graph& g, const op& o) {
  const arity wanted = arity_of(o.what);
  const auto counts = [](std::size_t least, std::size_t most) {
    return std::to_string(least) + (most > least ? " or " + std::to_string(most) : std::string());
  };
  if (o.in.size() < wanted.least_in || o.in.size() > wanted.most_in || o.out.size() < wanted.least_out ||
      o.out.size() > wanted.most_out) {
    return "takes " + counts(wanted.least_in, wanted.most_in) + " inputs and " +
           counts(wanted.least_out, wanted.most_out) + " outputs, not " + std::to_string(o.in.size()) +
           " and " + std::to_string(o.out.size());
  }
  for (const auto* ids : {&o.in, &o.out}) {
    for (const tensor_id id : *ids) {
      if (id >= g.tensors.size()) {
        return "names tensor " + std::to_string(id) + " of " + std::to_string(g.tensors.size());
      }
    }
  }
  return std::nullopt;
}

defect alias_defect(const operands& of) {
  if (!of.o.alias) return std::nullopt;
  const may_alias& a = *of.o.alias;
  if (a.input >= of.o.in.size() || a.output >= of.o.out.size()) return "aliases an operand it does not have";
  if (bytes_of(of.in(a.input)) == bytes_of(of.out(a.output))) return std::nullopt;
  return of.in(a.input).name + " and " + of.out(a.output).name + " may alias but differ in size";
}

// Reads come after writes and every tensor is written once. `written` has one flag per tensor.
defect order_defect(const graph& g, const op& o, std::vector<bool>& written) {
  for (const tensor_id id : o.in) {
    const tensor& t = g.tensors[id];
    if (!persists(t.use) && !written[id]) return "reads " + t.name + " before it is written";
  }
  for (const tensor_id id : o.out) {
    const tensor& t = g.tensors[id];
    const bool is_read = std::ranges::find(o.in, id) != o.in.end();
    const bool updates = std::holds_alternative<sgd_update>(o.what) ||
                         (std::holds_alternative<opaque>(o.what) && is_read && !o.repeatable);
    if (written[id]) return "is a second writer of " + t.name;
    if (updates ? t.use != role::parameter : persists(t.use)) {
      return "may not write " + t.name + ", a tensor of role " + std::string(to_text(t.use));
    }
    if (!updates && is_read) return "reads and writes " + t.name;
    written[id] = true;
  }
  return std::nullopt;
}

}  // namespace

std::string_view kind_of(const op_attributes& what) {
  constexpr std::array<std::string_view, std::variant_size_v<op_attributes>> kinds{
      "convolution",
      "convolution_backward_data",
      "convolution_backward_filter",
      "bias_backward",
      "relu",
      "relu_backward",
      "relu_bias_backward",
      "max_pool",
      "max_pool_backward",
      "linear",
      "linear_backward_data",
      "linear_backward_filter",
      "batch_norm",
      "normalize",
      "batch_norm_backward",
      "add",
      "global_average_pool",
      "global_average_pool_backward",
      "cast",
      "softmax_cross_entropy",
      "softmax_cross_entropy_backward",
      "softmax_cross_entropy_gradient",
      "sgd_update",
      "opaque"};
  return kinds.at(what.index());
}

std::string_view to_text(batch_cut cut) {
  constexpr std::array<std::string_view, 3> names{"whole", "part", "sum"};
  return names.at(static_cast<std::size_t>(cut));
}

std::string_view to_text(precision arithmetic) {
  constexpr std::array<std::string_view, 3> names{"fp32", "tf32", "bf16"};
  return names.at(static_cast<std::size_t>(arithmetic));
}

std::optional<std::string> defect_of(const graph& g) {
  if (auto d = tensors_defect(g)) return d;
  std::vector<bool> written(g.tensors.size());
  for (const op& o : g.ops) {
    const operands of{g, o};
    auto d = arity_defect(g, o);
    if (!d) d = order_defect(g, o, written);
    if (!d) d = operands_defect(of);
    if (!d) d = order_of_memory_defect(of);
    if (!d) d = alias_defect(of);
    if (d) return "operator " + o.name + " (" + std::string(kind_of(o.what)) + "): " + *d;
  }
  return std::nullopt;
}

bool has_opaque(const graph& g) {
  return std::ranges::any_of(g.ops, [](const op& o) { return std::holds_alternative<opaque>(o.what); });
}

byte_count bytes_of(const graph& g, role use) {
  byte_count total = 0;
  for (const tensor& t : g.tensors) {
    if (t.use == use) total += bytes_of(t);
  }
  return total;
}

byte_count touched_bytes(const graph& g) {
  std::vector<bool> seen(g.tensors.size(), false);
  byte_count total = 0;
  const auto add = [&](tensor_id id) {
    if (!seen.at(id)) total += bytes_of(g.tensors[id]);
    seen[id] = true;
  };
  for (const op& o : g.ops) {
    for (const tensor_id id : o.in) add(id);
    for (const tensor_id id : o.out) add(id);
  }
  return total;
}

}  // namespace um
