#include "backends/cuda/operators.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/kernels/pitched_copy.hpp"
#include "backends/cuda/matrix_engines.hpp"
#include "core/lifetimes.hpp"
#include "core/operands.hpp"

namespace um {
namespace {

// The operands of a part of an operator.
struct part_operands {
  session& gpu;
  const graph& g;
  const op& o;
  const box& part;
  std::vector<access> touched;
  std::uint32_t alignment;
  byte_count workspace_cap;

  const tensor& whole(std::size_t operand) const { return g.tensors[touched[operand].tensor]; }
  dims shape(std::size_t operand) const { return shape_of(touched[operand].where, whole(operand).shape.w); }
  // The rows of padding above the part of x. They are negative if the part begins with rows above its first
  // window.
  std::int32_t padding_above() const { return static_cast<std::int32_t>(padding_of(g, o, part).above); }
  kernels::tensor_form tensor_form_of(std::size_t operand) const {
    return {shape(operand), whole(operand).type, whole(operand).order};
  }
  byte_count bytes(std::size_t operand) const { return bytes_of(whole(operand), touched[operand].where); }
  std::int64_t count(std::size_t operand) const { return element_count(shape(operand)); }
  bool accumulates(std::size_t operand) const { return touched[operand].mode == access_mode::accumulate; }
  std::size_t inputs() const { return o.in.size(); }
  std::size_t operands() const { return touched.size(); }
};

// Typed addresses of a kernel's operands and workspace.
struct kernel_operands {
  const bound_operands& given;

  std::byte* operator[](std::size_t operand) const { return given.data[operand]; }
  float* floats(std::size_t operand) const { return reinterpret_cast<float*>(given.data[operand]); }
  std::int32_t* as_integers(std::size_t operand) const {
    return reinterpret_cast<std::int32_t*>(given.data[operand]);
  }
  float* workspace() const { return reinterpret_cast<float*>(given.workspace); }
};

// Makes an engine of umbench's own kernels: `launch(where, operands)` runs the kernel.
template <class Launch>
engine make_kernel_engine(const part_operands& at, byte_count workspace, Launch launch) {
  return {
      {"kernel", 0, workspace, 0},
      [where = at.gpu.compute(), launch = std::move(launch)](const bound_operands& operands) -> kernel_call {
        return [where, launch, operands] { launch(where, kernel_operands{operands}); };
      }};
}

std::vector<std::int64_t> input_element_counts(const part_operands& at) {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < at.inputs(); ++i) counts.push_back(at.count(i));
  return counts;
}

// The memory order that two tensors share: that of `a` if it has several channels, and planes larger than a
// point; otherwise its order does not show, and that of `b` counts.
memory_order shared_order(const tensor& a, const tensor& b) {
  return a.shape.h * a.shape.w > 1 && a.shape.c > 1 ? a.order : b.order;
}

convolution_problem problem_of(const part_operands& at, convolution_kind kind, const convolution& attributes,
                               std::size_t x, std::size_t w, std::size_t y) {
  using enum convolution_kind;
  convolution_problem problem{kind, at.shape(x), at.shape(w), at.shape(y), attributes};
  problem.attributes.pad_h = at.padding_above();
  problem.accumulates = at.accumulates(kind == forward ? y : kind == backward_data ? x : w);
  problem.arithmetic = at.g.arithmetic;
  problem.order = shared_order(at.whole(x), at.whole(y));
  return problem;
}

matrix_problem problem_of(const part_operands& at, matrix_kind kind, std::size_t x, std::size_t w,
                          std::size_t result) {
  const dims input = at.shape(x);
  return {.kind = kind,
          .n = input.n,
          .in = input.c * input.h * input.w,
          .out = at.shape(w).n,
          .accumulate = at.accumulates(result),
          .arithmetic = at.g.arithmetic,
          .alignment = at.alignment};
}

kernels::max_pool_problem problem_of(const part_operands& at, const max_pool& attributes, std::size_t x,
                                     std::size_t y, std::size_t index) {
  return {at.shape(x),
          at.shape(y),
          attributes,
          at.whole(x).type,
          shared_order(at.whole(x), at.whole(y)),
          static_cast<int>(element_bytes(at.whole(index).type)),
          at.padding_above()};
}

kernels::average_pool_problem problem_of(const part_operands& at, const average_pool& attributes,
                                         std::size_t x, std::size_t y) {
  return {at.shape(x),
          at.shape(y),
          attributes,
          at.whole(x).type,
          shared_order(at.whole(x), at.whole(y)),
          at.touched[x].where.row.begin,
          at.touched[y].where.row.begin,
          at.whole(x).shape.h};
}

// An operand of a concatenation, and its place in the concatenated tensor. Each image, or each pixel, of that
// tensor is a run of bytes; the operand begins with byte `first` of every run.
struct concatenated_operand {
  std::size_t operand = 0;
  byte_count first = 0;
  kernels::byte_box box;
};

// Passes the operator's operand `order[i]` to the engine as its operand i.
engine with_reordered_operands(engine inner, std::vector<std::size_t> order) {
  return {inner.choice,
          [bind = std::move(inner.bind), order = std::move(order)](const bound_operands& given) {
            bound_operands taken{{}, given.workspace};
            for (const std::size_t operand : order) taken.data.push_back(given.data.at(operand));
            return bind(taken);
          }};
}

// Replays an operator that is not computed: its kernel touches the operands of the part and takes the
// part's share of the time.
engine replay_engine(const part_operands& at, const opaque& attributes) {
  if (runs_on_cpu(at.o))
    throw unsupported("operator " + at.o.name + " is work of the CPU, which can be simulated only");
  if (!attributes.duration) {
    throw unsupported("operator " + at.o.name + " (opaque " + attributes.label +
                      ") says no duration, without which it cannot be replayed");
  }
  if (at.operands() > kernels::max_replayed_operands) {
    throw unsupported("operator " + at.o.name + " (opaque " + attributes.label + ") has " +
                      std::to_string(at.operands()) + " operands; at most " +
                      std::to_string(kernels::max_replayed_operands) + " can be replayed");
  }
  kernels::replayed_operator replayed;
  replayed.count = static_cast<int>(at.operands());
  replayed.duration_ns = static_cast<std::int64_t>(
      share_of(static_cast<std::uint64_t>(*attributes.duration), at.g, at.o, at.part));
  for (std::size_t i = 0; i < at.operands(); ++i) {
    const access_mode mode = at.touched[i].mode;
    replayed.operands[i] = {nullptr, at.count(i) * static_cast<std::int64_t>(element_bytes(at.whole(i).type)),
                            mode != access_mode::write, mode != access_mode::read,
                            is_floating(at.whole(i).type)};
  }
  return make_kernel_engine(at, attributes.workspace_bytes,
                            [replayed, rate = at.gpu.memory_bytes_per_s()](auto where, kernel_operands to) {
                              kernels::replayed_operator bound = replayed;
                              for (int i = 0; i < bound.count; ++i)
                                bound.operands[i].address = to[static_cast<std::size_t>(i)];
                              kernels::replay(where, bound, rate);
                            });
}

// Copies the other operands into the concatenated tensor `whole`, one after the other, or the reverse.
engine concatenation_engine(const part_operands& at, std::size_t whole, bool concatenates) {
  const bool last = at.whole(whole).order == memory_order::nhwc;
  const dims shape = at.shape(whole);
  const auto runs = static_cast<byte_count>(last ? shape.n * shape.h * shape.w : shape.n);
  const byte_count pitch = at.bytes(whole) / runs;
  std::vector<concatenated_operand> parts;
  byte_count first = 0;
  for (std::size_t i = 0; i < at.operands(); ++i) {
    if (i == whole) continue;
    kernels::byte_box box{at.bytes(i) / runs, runs};
    box.from_pitch = concatenates ? box.width : pitch;
    box.to_pitch = concatenates ? pitch : box.width;
    parts.push_back({i, first, box});
    first += box.width;
  }
  return make_kernel_engine(
      at, 0, [parts = std::move(parts), whole, concatenates](auto where, kernel_operands to) {
        for (const concatenated_operand& part : parts) {
          std::byte *const there = to[whole] + part.first, *const apart = to[part.operand];
          kernels::copy_box_by_kernel(where.stream, concatenates ? there : apart,
                                      concatenates ? apart : there, part.box);
        }
      });
}

// Engines of libraries and of umbench compute convolutions and matrix products.
struct product_chooser {
  const part_operands& at;

  engine choose_aligned(const convolution_problem& problem) const {
    if (at.alignment % operand_alignment(at.o) != 0) {
      throw std::invalid_argument("operator " + at.o.name + ": operands at multiples of " +
                                  std::to_string(at.alignment) + " bytes, engines take " +
                                  std::to_string(engine_alignment));
    }
    return choose_engine(at.gpu, problem, at.workspace_cap);
  }

  engine operator()(const convolution& attributes) const {
    const std::size_t y = at.inputs();
    auto problem = problem_of(at, convolution_kind::forward, attributes, 0, 1, y);
    problem.has_bias =
        at.inputs() > 2 && !problem.accumulates;  // only the part that overwrites the result adds the bias
    std::vector<std::size_t> order{0, 1, y};
    if (problem.has_bias) order.push_back(2);
    return with_reordered_operands(choose_aligned(problem), std::move(order));
  }
  engine operator()(const convolution_backward_data& attributes) const {  // w, dy -> dx
    const auto problem = problem_of(at, convolution_kind::backward_data, attributes.forward, 2, 0, 1);
    return with_reordered_operands(choose_aligned(problem), {2, 0, 1});
  }
  engine operator()(const convolution_backward_filter& attributes) const {  // x, dy -> dw
    const auto problem = problem_of(at, convolution_kind::backward_filter, attributes.forward, 0, 2, 1);
    return with_reordered_operands(choose_aligned(problem), {0, 2, 1});
  }
  engine operator()(const linear& attributes) const {
    const std::size_t y = at.inputs();
    auto problem = problem_of(at, matrix_kind::forward, 0, 1, y);
    problem.has_bias = at.inputs() > 2 && !problem.accumulate;
    problem.relu = attributes.relu;
    std::vector<std::size_t> order{0, 1, y};
    if (problem.has_bias) order.push_back(2);
    return with_reordered_operands(choose_engine(at.gpu, problem, at.workspace_cap), std::move(order));
  }
  engine operator()(const linear_backward_data&) const {  // w, dy -> dx
    const auto problem = problem_of(at, matrix_kind::backward_data, 2, 0, 2);
    return with_reordered_operands(choose_engine(at.gpu, problem, at.workspace_cap), {2, 0, 1});
  }
  engine operator()(const linear_backward_filter&) const {  // x, dy -> dw [, db]
    auto problem = problem_of(at, matrix_kind::backward_filter, 0, 2, 2);
    problem.has_bias = at.operands() > 3;
    std::vector<std::size_t> order{0, 2, 1};
    if (problem.has_bias) order.push_back(3);
    return with_reordered_operands(choose_engine(at.gpu, problem, at.workspace_cap), std::move(order));
  }
};

// umbench's own kernels. Comments name the operands.
struct kernel_chooser {
  const part_operands& at;

  engine operator()(const bias_backward&) const {
    const kernels::tensor_form of = at.tensor_form_of(0);
    return own_kernel(kernels::bias_backward_workspace(of),
                      [of, adds = at.accumulates(1)](auto where, kernel_operands to) {
                        kernels::bias_backward(where, to[0], to.floats(1), of, adds, to.workspace());
                      });
  }
  engine operator()(const relu& attributes) const {
    return own_kernel(0, [of = at.tensor_form_of(0), attributes](auto where, kernel_operands to) {
      kernels::relu(where, to[0], to[1], element_count(of.shape), of.type, attributes.relu6);
    });
  }
  engine operator()(const relu_backward& attributes) const {
    return own_kernel(0, [of = at.tensor_form_of(0), attributes](auto where, kernel_operands to) {
      kernels::relu_backward(where, to[0], to[1], to[2], element_count(of.shape), of.type,
                             attributes.forward.relu6);
    });
  }
  engine operator()(const relu_bias_backward&) const {  // y, dy -> dx, db
    const kernels::tensor_form of = at.tensor_form_of(0);
    return own_kernel(
        kernels::bias_backward_workspace(of), [of, adds = at.accumulates(3)](auto where, kernel_operands to) {
          kernels::relu_bias_backward(where, to[0], to[1], to[2], to.floats(3), of, adds, to.workspace());
        });
  }
  engine operator()(const max_pool& attributes) const {  // x [, b] -> y, index
    const std::size_t y = at.inputs();
    return own_kernel(0,
                      [problem = problem_of(at, attributes, 0, y, y + 1), y](auto where, kernel_operands to) {
                        const float* const b = y > 1 ? to.floats(1) : nullptr;
                        kernels::max_pool_forward(where, to[0], b, to[y], to[y + 1], problem);
                      });
  }
  engine operator()(const max_pool_backward& attributes) const {  // dy, index [, y] -> dx [, db]
    const std::size_t dx = at.inputs();
    const auto problem = problem_of(at, attributes.forward, dx, 0, 1);
    const bool sums = at.operands() > dx + 1, adds = sums && at.accumulates(dx + 1);
    return own_kernel(sums ? kernels::max_pool_backward_workspace(problem) : 0,
                      [problem, dx, sums, adds](auto where, kernel_operands to) {
                        const void* const y = dx > 2 ? to[2] : nullptr;
                        float* const db = sums ? to.floats(dx + 1) : nullptr;
                        kernels::max_pool_backward(where, to[0], to[1], y, to[dx], db, problem, adds,
                                                   to.workspace());
                      });
  }
  // x, scale, shift [, residual] -> y, mean, inverse_deviation
  engine operator()(const batch_norm& attributes) const {
    const kernels::tensor_form of = at.tensor_form_of(0);
    return own_kernel(kernels::batch_statistics_workspace(of), [of, attributes, y = at.inputs()](
                                                                   auto where, kernel_operands to) {
      float *const mean = to.floats(y + 1), *const inverse_deviation = to.floats(y + 2);
      kernels::batch_statistics(where, to[0], attributes.epsilon, mean, inverse_deviation, of,
                                to.workspace());
      kernels::normalize(where,
                         {to[0], to.floats(1), to.floats(2), mean, inverse_deviation, y > 3 ? to[3] : nullptr,
                          to[y], attributes.relu, attributes.relu6},
                         of);
    });
  }
  // x, scale, shift, mean, inverse_deviation [, residual] -> y
  engine operator()(const normalize& attributes) const {
    return own_kernel(
        0, [of = at.tensor_form_of(0), attributes, y = at.inputs()](auto where, kernel_operands to) {
          kernels::normalize(where,
                             {to[0], to.floats(1), to.floats(2), to.floats(3), to.floats(4),
                              y > 5 ? to[5] : nullptr, to[y], attributes.relu, attributes.relu6},
                             of);
        });
  }
  // x, scale, shift, mean, inverse_deviation, dy [, dy2] [, y] -> dx, dscale, dshift [, dresidual]
  engine operator()(const batch_norm_backward& attributes) const {
    const kernels::tensor_form of = at.tensor_form_of(0);
    return own_kernel(kernels::batch_norm_backward_workspace(of), [of, attributes, dx = at.inputs()](
                                                                      auto where, kernel_operands to) {
      const bool two = attributes.two_gradients, residual = attributes.residual;
      const kernels::normalization_gradient operands{to[0],
                                                     to.floats(1),
                                                     to.floats(2),
                                                     to.floats(3),
                                                     to.floats(4),
                                                     to[5],
                                                     two ? to[6] : nullptr,
                                                     attributes.relu && residual ? to[two ? 7 : 6] : nullptr,
                                                     to[dx],
                                                     to.floats(dx + 1),
                                                     to.floats(dx + 2),
                                                     residual ? to[dx + 3] : nullptr,
                                                     attributes.relu,
                                                     attributes.relu6};
      kernels::batch_norm_backward(where, operands, of, to.workspace());
    });
  }
  engine operator()(const add&) const {
    return own_kernel(0, [of = at.tensor_form_of(0)](auto where, kernel_operands to) {
      kernels::add(where, to[0], to[1], to[2], element_count(of.shape), of.type);
    });
  }
  engine operator()(const average_pool& attributes) const {
    return own_kernel(0, [problem = problem_of(at, attributes, 0, 1)](auto where, kernel_operands to) {
      kernels::average_pool_forward(where, to[0], to[1], problem);
    });
  }
  engine operator()(const average_pool_backward& attributes) const {
    return own_kernel(0,
                      [problem = problem_of(at, attributes.forward, 1, 0)](auto where, kernel_operands to) {
                        kernels::average_pool_backward(where, to[0], to[1], problem);
                      });
  }
  engine operator()(const concat&) const { return concatenation_engine(at, at.inputs(), true); }
  engine operator()(const concat_backward&) const { return concatenation_engine(at, 0, false); }
  engine operator()(const global_average_pool&) const {
    return own_kernel(0, [of = at.tensor_form_of(0)](auto where, kernel_operands to) {
      kernels::global_average_pool(where, to[0], to[1], of);
    });
  }
  engine operator()(const global_average_pool_backward&) const {
    return own_kernel(0, [of = at.tensor_form_of(1)](auto where, kernel_operands to) {
      kernels::global_average_pool_backward(where, to[0], to[1], of);
    });
  }
  engine operator()(const cast&) const {
    return own_kernel(
        0, [count = at.count(0), from = at.whole(0).type, type = at.whole(1).type](
               auto where, kernel_operands to) { kernels::cast(where, to[0], from, to[1], type, count); });
  }
  engine operator()(const softmax_cross_entropy&) const {  // logits, labels -> loss, probabilities
    return softmax_kernel(&kernels::softmax_cross_entropy);
  }
  engine operator()(const softmax_cross_entropy_gradient&) const {  // logits, labels -> loss, dlogits
    return softmax_kernel(&kernels::softmax_cross_entropy_gradient);
  }
  engine operator()(const softmax_cross_entropy_backward&) const {  // probabilities, labels -> dlogits
    return own_kernel(0, [rows = softmax_problem_of_logits()](auto where, kernel_operands to) {
      kernels::softmax_cross_entropy_backward(where, to[0], to.as_integers(1), to[2], rows);
    });
  }
  engine operator()(const sgd_update& attributes) const {  // w, dw -> w
    return own_kernel(0,
                      [count = at.count(0), rate = attributes.learning_rate](auto where, kernel_operands to) {
                        kernels::sgd_update(where, to.floats(0), to.floats(1), rate, count);
                      });
  }
  engine operator()(const optimizer_step& update) const {
    return own_kernel(0, [update, places = stepped_parameters(at.g, at.o), counts = input_element_counts(at)](
                             auto where, kernel_operands to) {
      std::vector<kernels::stepped_tensor> tensors;
      for (const stepped_parameter& p : places) {
        const auto state = [&](std::int32_t which) {
          return to.floats(p.parameter_index + 2 + static_cast<std::size_t>(which));
        };
        tensors.push_back({to[p.parameter_index], to.floats(p.parameter_index + 1),
                           update.moments > 0 ? state(0) : nullptr, update.moments > 1 ? state(1) : nullptr,
                           p.has_master ? state(update.moments) : nullptr, counts[p.parameter_index]});
      }
      kernels::take_optimizer_step(where, tensors, update,
                                   update.moments > 1 ? to.as_integers(counts.size() - 1) : nullptr);
    });
  }
  engine operator()(const opaque& attributes) const { return replay_engine(at, attributes); }

 private:
  template <class Launch>
  engine own_kernel(byte_count workspace, Launch launch) const {
    return make_kernel_engine(at, workspace, std::move(launch));
  }
  kernels::softmax_problem softmax_problem_of_logits() const {
    const dims part = at.shape(0);
    return {part.n, part.c * part.h * part.w, at.whole(0).shape.n, at.whole(0).type};
  }
  template <class Kernel>
  engine softmax_kernel(Kernel compute) const {
    const kernels::softmax_problem rows = softmax_problem_of_logits();
    return own_kernel(kernels::softmax_workspace(rows), [compute, rows, adds = at.accumulates(2)](
                                                            auto where, kernel_operands to) {
      compute(where, to[0], to.as_integers(1), to.floats(2), to[3], rows, adds, to.workspace());
    });
  }
};

}  // namespace

engine choose_engine(session& gpu, const graph& g, const op& o, const box& part, std::uint32_t alignment,
                     byte_count workspace_cap) {
  const part_operands at{gpu, g, o, part, accesses_of(g, o, part), alignment, workspace_cap};
  return std::visit(overloaded{product_chooser{at}, kernel_chooser{at}}, o.attributes.value);
}

namespace {

// Writes the attributes that kernels depend on as text.
struct attribute_text {
  std::string& text;
  void pair(const char* name, std::int32_t rows, std::int32_t columns, std::int64_t) const {
    text += ' ' + std::string(name) + ' ' + std::to_string(rows) + ',' + std::to_string(columns);
  }
  void integer(const char* name, std::int32_t value, std::int64_t) const {
    text += ' ' + std::string(name) + ' ' + std::to_string(value);
  }
  void integer_or(const char* name, std::int32_t value, std::int64_t usual) const {
    if (value != usual) integer(name, value, usual);
  }
  void flag(const char* name, bool value) const {
    if (value) text += ' ' + std::string(name);
  }
  void number(const char* name, float value, double, double) const {
    text += ' ' + std::string(name) + ' ' + std::to_string(value);
  }
};

}  // namespace

std::string signature_of(const graph& g, const op& o, const box& part) {
  std::string text(kind_of(o.attributes));
  std::visit(overloaded{[&](const opaque& a) {
                          text += ' ' + a.label + ' ' + std::to_string(a.duration.value_or(0)) + " ns " +
                                  std::to_string(a.workspace_bytes) + " B";
                        },
                        [&](const auto& a) { fields_of(a, attribute_text{text}); }},
             o.attributes.value);
  const row_padding padding = padding_of(g, o, part);
  text += " above " + std::to_string(padding.above);
  for (const access& a : accesses_of(g, o, part)) {
    const tensor& t = g.tensors[a.tensor];
    text += ' ' + to_text(shape_of(a.where, t.shape.w)) + ' ' + std::string(to_text(t.type)) + ' ' +
            std::string(to_text(t.order)) + (a.mode == access_mode::accumulate ? " added" : "");
  }
  return text;
}

bool same_work(const graph& g, const op& a, const op& b) {
  const auto alike = [&](const std::vector<tensor_id>& left, const std::vector<tensor_id>& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [&](tensor_id l, tensor_id r) {
      const tensor &s = g.tensors[l], &t = g.tensors[r];
      return s.shape == t.shape && s.type == t.type && s.order == t.order;
    });
  };
  return a.attributes == b.attributes && alike(a.in, b.in) && alike(a.out, b.out);
}

}  // namespace um
