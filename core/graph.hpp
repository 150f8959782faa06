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

// How products are computed: what multiplies, and what operands are rounded to. Sums are always
// fp32.
enum class precision : std::uint8_t {
  fp32,  // fp32 throughout, no TF32
  tf32,  // operands rounded to TF32 (10 bits of mantissa) inside convolutions and linear layers
  bf16,  // operands of type bf16
};

// --- operators: attributes, and the order of operands (in -> out; [] where it depends) ---
//
// Tensors that have extents beyond the channels (h * w > 1) share one memory order within an
// operator. "vectors" are f32, whatever the type of the rest.

struct convolution {  // x, w [, b] -> y          y = x * w + b, cross-correlation
  std::int32_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool relu = false;  // y = max(x * w + b, 0)
  friend bool operator==(const convolution&, const convolution&) = default;
};
// Backward operators are of the product alone: forward.relu is false in them.
struct convolution_backward_data {  // w, dy -> dx
  convolution forward;
  friend bool operator==(const convolution_backward_data&, const convolution_backward_data&) = default;
};
struct convolution_backward_filter {  // x, dy -> dw      dw is f32
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
// The gradient through ReLU and the bias before it in one pass: db is the sum of dx.
struct relu_bias_backward {  // y, dy -> dx, db    dx may take dy's place
  friend bool operator==(const relu_bias_backward&, const relu_bias_backward&) = default;
};
// x [, b] -> y, index. A window that overhangs the input is clipped. index is the position of the
// maximum inside the window, row * window + column, first one wins: u8 while window^2 <= 256,
// else u16. With relu and a bias, y = max(maximum + b, 0): what convolution, bias, ReLU and pool
// give, without the tensors in between.
struct max_pool {
  std::int32_t window = 2, stride = 2, pad = 0;
  bool relu = false;
  friend bool operator==(const max_pool&, const max_pool&) = default;
};
// dy, index [, y] -> dx [, db]. y is given if forward.relu: positions where it is 0 pass nothing.
// db, if wanted, is the sum of dx.
struct max_pool_backward {
  max_pool forward;
  friend bool operator==(const max_pool_backward&, const max_pool_backward&) = default;
};
struct linear {  // x, w [, b] -> y                x is read as [n, c*h*w]; w is [out, c, h, w]
  bool relu = false;
  friend bool operator==(const linear&, const linear&) = default;
};
struct linear_backward_data {  // w, dy -> dx
  friend bool operator==(const linear_backward_data&, const linear_backward_data&) = default;
};
struct linear_backward_filter {  // x, dy -> dw [, db]     dw and db are f32; db is the sum of dy
  friend bool operator==(const linear_backward_filter&, const linear_backward_filter&) = default;
};
// Batch normalisation in training mode (Ioffe and Szegedy 2015): statistics of the batch, biased
// variance. y = scale * (x - mean) * inverse_deviation + shift [+ residual], then ReLU if asked
// for. The four vectors are [1, c, 1, 1].
struct batch_norm {  // x, scale, shift [, residual] -> y, mean, inverse_deviation
  float epsilon = 1e-5F;
  bool relu = false;
  friend bool operator==(const batch_norm&, const batch_norm&) = default;
};
// Batch normalisation with statistics that are given: inference, and computing y again from x.
struct normalize {  // x, scale, shift, mean, inverse_deviation [, residual] -> y
  bool relu = false;
  friend bool operator==(const normalize&, const normalize&) = default;
};
// x, scale, shift, mean, inverse_deviation, dy [, dy2] [, y] -> dx, dscale, dshift [, dresidual].
// dy2 is given if `two_gradients`: the gradient of y is dy + dy2. With `residual`, dresidual is the
// gradient behind the ReLU. The ReLU's mask is read from y if `relu` and `residual`, and computed
// from x if `relu` alone. dresidual may take dy's place; without it dx may.
struct batch_norm_backward {
  bool relu = false, residual = false, two_gradients = false;
  friend bool operator==(const batch_norm_backward&, const batch_norm_backward&) = default;
};
struct add {  // a, b -> y                         y may take a's place
  friend bool operator==(const add&, const add&) = default;
};
struct global_average_pool {  // x -> y            y is [n, c, 1, 1], the mean over each plane
  friend bool operator==(const global_average_pool&, const global_average_pool&) = default;
};
struct global_average_pool_backward {  // dy -> dx
  friend bool operator==(const global_average_pool_backward&, const global_average_pool_backward&) = default;
};
struct cast {  // x -> y                           the same values, rounded to y's type
  friend bool operator==(const cast&, const cast&) = default;
};
struct softmax_cross_entropy {  // logits, labels -> loss, probabilities   mean over the batch
  friend bool operator==(const softmax_cross_entropy&, const softmax_cross_entropy&) = default;
};
struct softmax_cross_entropy_backward {  // probabilities, labels -> dlogits
  friend bool operator==(const softmax_cross_entropy_backward&,
                         const softmax_cross_entropy_backward&) = default;
};
// The loss and its gradient in one pass.
struct softmax_cross_entropy_gradient {  // logits, labels -> loss, dlogits   dlogits may take logits' place
  friend bool operator==(const softmax_cross_entropy_gradient&,
                         const softmax_cross_entropy_gradient&) = default;
};
struct sgd_update {  // w, dw -> w                 w -= learning_rate * dw, in place; all f32
  float learning_rate = 0.01F;
  friend bool operator==(const sgd_update&, const sgd_update&) = default;
};

// How an operand of an opaque operator is cut where the operator goes over the batch in parts: read whole by
// each of them; the same samples; or, for an output without a batch, the sum over the samples.
enum class batch_cut : std::uint8_t { whole, part, sum };
std::string_view to_text(batch_cut cut);

// An operator of which it is known what it touches and how long it takes, but not what it computes: of a
// network from elsewhere. It is planned and simulated as any other, and replayed on a GPU: something reads
// its inputs, writes its outputs and takes its time. Outputs that are written in place (parameters) are
// among the inputs too.
struct opaque {  // any number -> at least one
  std::string label;                    // what its framework calls it: "gelu"
  std::uint64_t flops = 0;              // multiply and add count as two
  byte_count bytes = 0;                 // that it reads and writes, which may be less than its operands hold
  bool products = false;                // flops are products of matrices: at the rate of the graph's precision
  std::optional<nanoseconds> duration;  // with everything resident; nothing: as a machine's rates say
  byte_count workspace_bytes = 0;
  std::vector<batch_cut> in = {}, out = {};  // for each operand; both empty: it cannot be cut
  friend bool operator==(const opaque&, const opaque&) = default;
};

using op_attributes =
    std::variant<convolution, convolution_backward_data, convolution_backward_filter, bias_backward, relu,
                 relu_backward, relu_bias_backward, max_pool, max_pool_backward, linear, linear_backward_data,
                 linear_backward_filter, batch_norm, normalize, batch_norm_backward, add, global_average_pool,
                 global_average_pool_backward, cast, softmax_cross_entropy, softmax_cross_entropy_backward,
                 softmax_cross_entropy_gradient, sgd_update, opaque>;

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
  precision arithmetic = precision::fp32;
};

// The operator's kind as written in plans and tables: "convolution_backward_data".
std::string_view kind_of(const op_attributes& what);
std::string_view to_text(precision arithmetic);

// Why the graph is not well formed (an id out of range, two writers of a tensor, a read before
// the write, extents that do not fit the operator, a size beyond 2^63), or nothing.
std::optional<std::string> defect_of(const graph& g);

// Whether some operator is opaque: then nothing of the graph has a value that means anything.
bool has_opaque(const graph& g);

// Sum of bytes of all tensors of a role.
byte_count bytes_of(const graph& g, role use);

// Sum of bytes of all tensors that an operator reads or writes, each once however often it does so.
byte_count touched_bytes(const graph& g);

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace um
