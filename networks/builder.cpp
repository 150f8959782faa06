#include "networks/builder.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "networks/passes.hpp"

namespace um {
namespace {

std::int32_t to_int32(const std::string& layer, const char* what, std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("layer " + layer + ": a " + what + " of " + std::to_string(value) +
                                " is outside 0 to 2^31 - 1");
  }
  return static_cast<std::int32_t>(value);
}

std::int64_t window_count(const std::string& layer, std::int64_t extent, std::int64_t window,
                          std::int64_t stride, std::int64_t pad, partial_windows rest) {
  if (window < 1 || stride < 1) {
    throw std::invalid_argument("layer " + layer + ": window and stride must be at least 1");
  }
  const std::int64_t room = extent + 2 * pad - window;
  if (room < 0) {
    throw std::invalid_argument("layer " + layer + ": a window of " + std::to_string(window) +
                                " is larger than its input of " + std::to_string(extent) + " padded by " +
                                std::to_string(pad) + " on each side");
  }
  return (rest == partial_windows::pooled ? room + stride - 1 : room) / stride + 1;
}

// Appends the loss of `logits` and its gradient; returns the gradient.
tensor_id append_loss(graph& g, tensor_id logits, bool joins_operators) {
  const dims shape = g.tensors[logits].shape;
  const tensor_id labels = append_tensor(g, {"labels", {shape.n, 1, 1, 1}, dtype::i32, role::label});
  const tensor_id loss = append_tensor(g, {"loss", {1, 1, 1, 1}, dtype::f32, role::output});
  const auto gradient = [&] {
    return append_tensor(g, {"dlogits", shape, dtype::f32, role::activation_gradient});
  };
  if (joins_operators) {
    const tensor_id dlogits = gradient();
    g.ops.push_back(
        {"loss", softmax_cross_entropy_gradient{}, {logits, labels}, {loss, dlogits}, true, may_alias{0, 1}});
    return dlogits;
  }
  const tensor_id probabilities = append_tensor(g, {"probabilities", shape, dtype::f32, role::activation});
  g.ops.push_back(
      {"loss", softmax_cross_entropy{}, {logits, labels}, {loss, probabilities}, true, std::nullopt});
  const tensor_id dlogits = gradient();
  g.ops.push_back({"loss.backward",
                   softmax_cross_entropy_backward{},
                   {probabilities, labels},
                   {dlogits},
                   true,
                   std::nullopt});
  return dlogits;
}

}  // namespace

tensor_id append_tensor(graph& g, tensor t) {
  try {
    bytes_of(t);
  } catch (const std::overflow_error&) {
    throw std::invalid_argument("tensor " + t.name + " of shape " + to_text(t.shape) +
                                " does not fit in 2^63 bytes");
  }
  g.tensors.push_back(std::move(t));
  return static_cast<tensor_id>(g.tensors.size() - 1);
}

builder::builder(std::string name, pass mode) : mode_(mode) {
  graph_.name = std::move(name);
}

tensor_id builder::input(const std::string& name, const dims& shape) {
  return append_tensor(graph_, {name, shape, dtype::f32, role::input});
}

tensor_id builder::append_layer(const std::string& name, op_attributes what, std::vector<tensor_id> in,
                                const dims& y) {
  const tensor_id out = append_tensor(graph_, {name + ".y", y, dtype::f32, role::activation});
  graph_.ops.push_back({name, what, std::move(in), {out}, true, std::nullopt});
  return out;
}

tensor_id builder::parameter(const std::string& name, const dims& shape) {
  return append_tensor(graph_, {name, shape, dtype::f32, role::parameter});
}

tensor_id builder::convolution(const std::string& name, tensor_id x, const filters& f) {
  const dims shape = graph_.tensors[x].shape;
  const dims y{shape.n, f.count,
               window_count(name, shape.h, f.kernel.h, f.stride.h, f.pad.h, partial_windows::dropped),
               window_count(name, shape.w, f.kernel.w, f.stride.w, f.pad.w, partial_windows::dropped)};
  um::convolution what{to_int32(name, "stride", f.stride.h), to_int32(name, "stride", f.stride.w),
                       to_int32(name, "padding", f.pad.h), to_int32(name, "padding", f.pad.w)};
  what.groups = to_int32(name, "number of groups", f.groups);
  if (f.groups < 1) throw std::invalid_argument("layer " + name + ": the number of groups is below 1");
  std::vector<tensor_id> in{x, parameter(name + ".w", {f.count, shape.c / f.groups, f.kernel.h, f.kernel.w})};
  if (f.bias) in.push_back(parameter(name + ".b", {1, f.count, 1, 1}));
  return append_layer(name, what, std::move(in), y);
}

tensor_id builder::relu(const std::string& name, tensor_id x, bool relu6) {
  const tensor_id y = append_layer(name, um::relu{relu6}, {x}, graph_.tensors[x].shape);
  graph_.ops.back().alias = may_alias{0, 0};
  return y;
}

tensor_id builder::max_pool(const std::string& name, tensor_id x, std::int64_t window, std::int64_t stride,
                            partial_windows rest, std::int64_t pad) {
  const dims shape = graph_.tensors[x].shape;
  const dims pooled{shape.n, shape.c, window_count(name, shape.h, window, stride, pad, rest),
                    window_count(name, shape.w, window, stride, pad, rest)};
  const um::max_pool what{to_int32(name, "window", window), to_int32(name, "stride", stride),
                          to_int32(name, "padding", pad)};
  const tensor_id y = append_layer(name, what, {x}, pooled);
  const dtype index_type = window <= 16 ? dtype::u8 : dtype::u16;
  append_output({name + ".index", pooled, index_type, role::activation});
  return y;
}

tensor_id builder::average_pool(const std::string& name, tensor_id x, extent window, extent stride,
                                partial_windows rest, extent pad, bool count_include_pad) {
  const dims shape = graph_.tensors[x].shape;
  const dims pooled{shape.n, shape.c, window_count(name, shape.h, window.h, stride.h, pad.h, rest),
                    window_count(name, shape.w, window.w, stride.w, pad.w, rest)};
  const um::average_pool what{to_int32(name, "window", window.h),
                              to_int32(name, "window", window.w),
                              to_int32(name, "stride", stride.h),
                              to_int32(name, "stride", stride.w),
                              to_int32(name, "padding", pad.h),
                              to_int32(name, "padding", pad.w),
                              count_include_pad};
  return append_layer(name, what, {x}, pooled);
}

tensor_id builder::linear(const std::string& name, tensor_id x, std::int64_t outputs) {
  const dims shape = graph_.tensors[x].shape;
  const tensor_id w = parameter(name + ".w", {outputs, shape.c, shape.h, shape.w});
  const tensor_id b = parameter(name + ".b", {1, outputs, 1, 1});
  return append_layer(name, um::linear{}, {x, w, b}, {shape.n, outputs, 1, 1});
}

tensor_id builder::batch_norm(const std::string& name, tensor_id x, float epsilon) {
  const dims shape = graph_.tensors[x].shape;
  const dims vector{1, shape.c, 1, 1};
  std::vector<tensor_id> in{x, parameter(name + ".scale", vector), parameter(name + ".shift", vector)};
  if (mode_ == pass::inference) {
    for (const char* statistic : {".mean", ".inverse_deviation"}) {
      in.push_back(parameter(name + statistic, vector));
    }
    return append_layer(name, normalize{}, std::move(in), shape);
  }
  const tensor_id y = append_layer(name, um::batch_norm{epsilon}, std::move(in), shape);
  for (const char* statistic : {".mean", ".inverse_deviation"}) {
    append_output({name + statistic, vector, dtype::f32, role::activation});
  }
  return y;
}

tensor_id builder::add(const std::string& name, tensor_id a, tensor_id b) {
  const tensor_id y = append_layer(name, um::add{}, {a, b}, graph_.tensors[a].shape);
  graph_.ops.back().alias = may_alias{0, 0};
  return y;
}

tensor_id builder::concat(const std::string& name, const std::vector<tensor_id>& parts) {
  dims joined = graph_.tensors[parts.at(0)].shape;
  joined.c = 0;
  for (const tensor_id id : parts) joined.c += graph_.tensors[id].shape.c;
  return append_layer(name, um::concat{}, parts, joined);
}

tensor_id builder::global_average_pool(const std::string& name, tensor_id x) {
  const dims shape = graph_.tensors[x].shape;
  return append_layer(name, um::global_average_pool{}, {x}, {shape.n, shape.c, 1, 1});
}

void builder::append_output(tensor t) {
  const tensor_id id = append_tensor(graph_, std::move(t));
  graph_.ops.back().out.push_back(id);
}

graph builder::inference(tensor_id y, fusion fusion_mode) const {
  graph g = graph_;
  g.tensors.at(y).role = role::output;
  return fusion_mode == fusion::none ? g : fuse(g);
}

graph builder::training(tensor_id logits, fusion fusion_mode, bool sgd) const {
  graph g = inference(logits, fusion_mode);
  const auto found = std::ranges::find(g.tensors, role::output, &tensor::role);
  found->role = role::activation;
  const auto y = static_cast<tensor_id>(found - g.tensors.begin());
  const tensor_id dlogits = append_loss(g, y, fusion_mode != fusion::none);
  append_backward(g, y, dlogits, {}, fusion_mode != fusion::none);
  if (sgd) append_updates(g);
  return g;
}

graph builder::complete(tensor_id logits, const network_spec& spec) const {
  return spec.mode == pass::train ? training(logits, spec.fusion_mode, spec.appends_sgd)
                                  : inference(logits, spec.fusion_mode);
}

}  // namespace um
