#include "backends/cuda/operators.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cuda/convolution_engines.hpp"
#include "backends/cuda/matrix_engines.hpp"

namespace um {
namespace {

float* floats(std::byte* at) {
  return reinterpret_cast<float*>(at);
}
const std::int32_t* integers(std::byte* at) {
  return reinterpret_cast<const std::int32_t*>(at);
}

// An engine of our own: `launch(operands)` runs the kernel.
template <class Launch>
engine own_kernel(byte_count workspace, Launch launch) {
  return {{"kernel", 0, workspace, 0}, [launch](const bound_operands& operands) -> kernel_call {
            return [launch, operands] { launch(operands); };
          }};
}

// The operands of one slice of one operator: what each kind's chooser works from.
struct site {
  session& on;
  const graph& g;
  const op& o;
  std::vector<access> touched;
  std::uint32_t alignment;
  byte_count workspace_cap;

  const tensor& whole(std::size_t operand) const { return g.tensors[touched[operand].what]; }
  dims shape(std::size_t operand) const {
    dims part = whole(operand).shape;
    const region& r = touched[operand].where;
    if (r.along == axis::batch) part.n = r.end - r.begin;
    return part;
  }
  bool accumulates(std::size_t operand) const { return touched[operand].mode == access_mode::accumulate; }
  bool has_bias() const { return o.in.size() == 3; }
};

convolution_problem problem_of(const site& at, convolution_kind kind, const convolution& how, std::size_t x,
                               std::size_t w, std::size_t y) {
  return {kind, at.shape(x), at.shape(w), at.shape(y), how, false, at.alignment};
}

matrix_problem problem_of(const site& at, matrix_kind kind, std::size_t x, std::size_t w) {
  const dims input = at.shape(x);
  return {kind, input.n, input.c * input.h * input.w, at.shape(w).n, false, false, at.alignment};
}

// `order[i]` is the operator's operand that the engine takes as its i-th.
engine reordered(engine inner, std::vector<std::size_t> order) {
  return {inner.choice,
          [bind = std::move(inner.bind), order = std::move(order)](const bound_operands& given) {
            bound_operands taken{{}, given.workspace};
            for (const std::size_t operand : order) taken.data.push_back(given.data.at(operand));
            return bind(taken);
          }};
}

// The bias is added in place after the product: cuDNN's fused engines are for tensor cores.
engine with_bias_add(const site& at, engine inner, std::size_t bias, std::size_t y) {
  return {inner.choice,
          [where = at.on.compute(), shape = at.shape(y), bind = std::move(inner.bind), bias,
           y](const bound_operands& operands) -> kernel_call {
            return [product = bind(operands), where, shape, to = floats(operands.data.at(y)),
                    from = floats(operands.data.at(bias))] {
              product();
              kernels::bias_add(where, to, from, shape);
            };
          }};
}

struct chooser {
  const site& at;

  engine operator()(const convolution& how) const {
    const std::size_t y = at.o.in.size();
    const auto problem = problem_of(at, convolution_kind::forward, how, 0, 1, y);
    engine product = reordered(choose_engine(at.on, problem, at.workspace_cap), {0, 1, y});
    return at.has_bias() ? with_bias_add(at, std::move(product), 2, y) : product;
  }
  engine operator()(const convolution_backward_data& how) const {  // w, dy -> dx
    const auto problem = problem_of(at, convolution_kind::backward_data, how.forward, 2, 0, 1);
    return reordered(choose_engine(at.on, problem, at.workspace_cap), {2, 0, 1});
  }
  engine operator()(const convolution_backward_filter& how) const {  // x, dy -> dw
    auto problem = problem_of(at, convolution_kind::backward_filter, how.forward, 0, 2, 1);
    problem.accumulate = at.accumulates(2);
    return reordered(choose_engine(at.on, problem, at.workspace_cap), {0, 2, 1});
  }
  engine operator()(const bias_backward&) const {
    const dims shape = at.shape(0);
    return own_kernel(kernels::bias_backward_workspace(shape),
                      [where = at.on.compute(), shape, adds = at.accumulates(1)](const bound_operands& to) {
                        kernels::bias_backward(where, floats(to.data[0]), floats(to.data[1]), shape, adds,
                                               floats(to.workspace));
                      });
  }
  engine operator()(const relu&) const {
    return own_kernel(0, [where = at.on.compute(), count = elements(at.shape(0))](const bound_operands& to) {
      kernels::relu(where, floats(to.data[0]), floats(to.data[1]), count);
    });
  }
  engine operator()(const relu_backward&) const {
    return own_kernel(0, [where = at.on.compute(), count = elements(at.shape(0))](const bound_operands& to) {
      kernels::relu_backward(where, floats(to.data[0]), floats(to.data[1]), floats(to.data[2]), count);
    });
  }
  engine operator()(const max_pool& how) const {  // x -> y, index
    const kernels::pool_shape shape{at.shape(0), at.shape(1), how,
                                    static_cast<int>(size_of(at.whole(2).type))};
    return own_kernel(0, [where = at.on.compute(), shape](const bound_operands& to) {
      kernels::max_pool_forward(where, floats(to.data[0]), floats(to.data[1]), to.data[2], shape);
    });
  }
  engine operator()(const max_pool_backward& how) const {  // dy, index -> dx
    const kernels::pool_shape shape{at.shape(2), at.shape(0), how.forward,
                                    static_cast<int>(size_of(at.whole(1).type))};
    return own_kernel(0, [where = at.on.compute(), shape](const bound_operands& to) {
      kernels::max_pool_backward(where, floats(to.data[0]), to.data[1], floats(to.data[2]), shape);
    });
  }
  engine operator()(const linear&) const {
    const std::size_t y = at.o.in.size();
    auto problem = problem_of(at, matrix_kind::forward, 0, 1);
    problem.bias = at.has_bias();
    std::vector<std::size_t> order{0, 1, y};
    if (problem.bias) order.push_back(2);
    return reordered(choose_engine(at.on, problem, at.workspace_cap), std::move(order));
  }
  engine operator()(const linear_backward_data&) const {  // w, dy -> dx
    const auto problem = problem_of(at, matrix_kind::backward_data, 2, 0);
    return reordered(choose_engine(at.on, problem, at.workspace_cap), {2, 0, 1});
  }
  engine operator()(const linear_backward_filter&) const {  // x, dy -> dw
    auto problem = problem_of(at, matrix_kind::backward_filter, 0, 2);
    problem.accumulate = at.accumulates(2);
    return reordered(choose_engine(at.on, problem, at.workspace_cap), {0, 2, 1});
  }
  engine operator()(const softmax_cross_entropy&) const {  // logits, labels -> loss, probabilities
    const kernels::softmax_shape shape = rows_of(0);
    return own_kernel(kernels::softmax_workspace(shape),
                      [where = at.on.compute(), shape, adds = at.accumulates(2)](const bound_operands& to) {
                        kernels::softmax_cross_entropy(where, floats(to.data[0]), integers(to.data[1]),
                                                       floats(to.data[2]), floats(to.data[3]), shape, adds,
                                                       floats(to.workspace));
                      });
  }
  engine operator()(const softmax_cross_entropy_backward&) const {  // probabilities, labels -> dlogits
    return own_kernel(0, [where = at.on.compute(), shape = rows_of(0)](const bound_operands& to) {
      kernels::softmax_cross_entropy_backward(where, floats(to.data[0]), integers(to.data[1]),
                                              floats(to.data[2]), shape);
    });
  }
  engine operator()(const sgd_update& how) const {  // w, dw -> w
    return own_kernel(0, [where = at.on.compute(), count = elements(at.shape(0)),
                          rate = how.learning_rate](const bound_operands& to) {
      kernels::sgd_update(where, floats(to.data[0]), floats(to.data[1]), rate, count);
    });
  }

  kernels::softmax_shape rows_of(std::size_t operand) const {
    const dims part = at.shape(operand);
    return {part.n, part.c * part.h * part.w, at.whole(operand).shape.n};
  }
};

}  // namespace

engine choose_engine(session& on, const graph& g, const op& o, const slice& s, std::uint32_t alignment,
                     byte_count workspace_cap) {
  if (!is_whole(s) && s.along != axis::batch) {
    throw unsupported("operator " + o.name + ": the CUDA backend cuts along the batch only, not along " +
                      std::string(to_text(s.along)));
  }
  const site at{on, g, o, accesses_of(g, o, s), alignment, workspace_cap};
  return std::visit(chooser{at}, o.what);
}

byte_count first_byte_of(const tensor& t, const region& r) {
  if (r.along != axis::batch || r.begin == 0) return 0;
  return bytes_of(t) / static_cast<byte_count>(t.shape.n) * static_cast<byte_count>(r.begin);
}

bool same_work(const graph& g, const op& a, const op& b) {
  const auto same_shapes = [&](const std::vector<tensor_id>& left, const std::vector<tensor_id>& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [&](tensor_id l, tensor_id r) {
      return g.tensors[l].shape == g.tensors[r].shape && g.tensors[l].type == g.tensors[r].type;
    });
  };
  return a.what == b.what && same_shapes(a.in, b.in) && same_shapes(a.out, b.out);
}

}  // namespace um
