// A network as data: tensors, and operators in execution order. Each tensor has one writer (or
// none: inputs, labels and parameters are given); an update of a parameter names the parameter
// both as an input and as its output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tensor.hpp"

namespace um {

// --- operators: attributes, and the order of operands (in -> out) ---

struct convolution {  // x, w [, b] -> y          y = x * w + b, cross-correlation
  std::int32_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  friend bool operator==(const convolution&, const convolution&) = default;
};
struct convolution_backward_data {  // w, dy -> dx
  convolution forward;
  friend bool operator==(const convolution_backward_data&, const convolution_backward_data&) = default;
};
struct convolution_backward_filter {  // x, dy -> dw
  convolution forward;
  friend bool operator==(const convolution_backward_filter&, const convolution_backward_filter&) = default;
};
struct bias_backward {  // dy -> db                sum over all axes but channels
  friend bool operator==(const bias_backward&, const bias_backward&) = default;
};
struct relu {  // x -> y                           may work in place
  friend bool operator==(const relu&, const relu&) = default;
};
struct relu_backward {  // y, dy -> dx             dx may take dy's place
  friend bool operator==(const relu_backward&, const relu_backward&) = default;
};
// x -> y, index. A window that overhangs the input is clipped. index is the position of the
// maximum inside the window, row * window + column, first one wins: u8 while window^2 <= 256,
// else u16.
struct max_pool {
  std::int32_t window = 2, stride = 2, pad = 0;
  friend bool operator==(const max_pool&, const max_pool&) = default;
};
struct max_pool_backward {  // dy, index -> dx
  max_pool forward;
  friend bool operator==(const max_pool_backward&, const max_pool_backward&) = default;
};
struct linear {  // x, w [, b] -> y                x is read as [n, c*h*w]; w is [out, in]
  friend bool operator==(const linear&, const linear&) = default;
};
struct linear_backward_data {  // w, dy -> dx
  friend bool operator==(const linear_backward_data&, const linear_backward_data&) = default;
};
struct linear_backward_filter {  // x, dy -> dw
  friend bool operator==(const linear_backward_filter&, const linear_backward_filter&) = default;
};
struct softmax_cross_entropy {  // logits, labels -> loss, probabilities   mean over the batch
  friend bool operator==(const softmax_cross_entropy&, const softmax_cross_entropy&) = default;
};
struct softmax_cross_entropy_backward {  // probabilities, labels -> dlogits
  friend bool operator==(const softmax_cross_entropy_backward&,
                         const softmax_cross_entropy_backward&) = default;
};
struct sgd_update {  // w, dw -> w                 w -= learning_rate * dw, in place
  float learning_rate = 0.01F;
  friend bool operator==(const sgd_update&, const sgd_update&) = default;
};

using op_attributes =
    std::variant<convolution, convolution_backward_data, convolution_backward_filter, bias_backward, relu,
                 relu_backward, max_pool, max_pool_backward, linear, linear_backward_data,
                 linear_backward_filter, softmax_cross_entropy, softmax_cross_entropy_backward, sgd_update>;

// in[input] and out[output] may share memory when nothing reads the input afterwards.
struct may_alias {
  std::uint32_t input = 0, output = 0;
  friend bool operator==(const may_alias&, const may_alias&) = default;
};

struct op {
  std::string name;
  op_attributes what;
  std::vector<tensor_id> in, out;
  bool repeatable = true;  // false: computing it twice changes the result (updates in place)
  std::optional<may_alias> alias;
};

using op_id = std::uint32_t;

struct graph {
  std::string name;
  std::vector<tensor> tensors;
  std::vector<op> ops;
};

// The operator's kind as written in plans and tables: "convolution_backward_data".
std::string_view kind_of(const op_attributes& what);

// Why the graph is not well formed (an id out of range, two writers of a tensor, a read before
// the write, extents that do not fit the operator, a size beyond 2^63), or nothing.
std::optional<std::string> defect_of(const graph& g);

// Sum of bytes of all tensors of a role.
byte_count bytes_of(const graph& g, role use);

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace um
