// The kinds of operators: their attributes, and the order of their operands (in -> out; [] if optional).
// docs/contributing/adding.md names the places that a new kind touches.
//
// Every kind has a name, `kind`, as in plans, files and tables. One that has attributes hands them to a
// visitor under their names; its gradient has its forward operator's. Files, their schema and the signatures
// of engines go by that:
//   visitor.pair(name, rows, columns, least)     two whole numbers
//   visitor.integer(name, value, least)          a whole number
//   visitor.integer_or(name, value, least)       the same; files may leave it out where it is `least`
//   visitor.flag(name, value)                    files may leave it out where it is false
//   visitor.number(name, value, least, most)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/names.hpp"
#include "core/units.hpp"

namespace um {

struct no_attributes {
  friend bool operator==(const no_attributes&, const no_attributes&) = default;
};

// Tensors that have extents beyond the channels (h * w > 1) share one memory order within an operator.
// "vectors" are f32, whatever the type of the rest.

// x, w [, b] -> y. y = x * w + b (cross-correlation). With groups, the channels of x and of y form as many
// consecutive runs, and the i-th run of y depends only on the i-th run of x: w is [K, C / groups, R, S]. With
// as many groups as channels it is depthwise.
struct convolution {
  static constexpr std::string_view kind = "convolution";
  std::int32_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool relu = false;  // y = max(x * w + b, 0)
  std::int32_t groups = 1;
  static void fields(auto& a, auto&& v) {
    v.pair("stride", a.stride_h, a.stride_w, 1);
    v.pair("pad", a.pad_h, a.pad_w, 0);
    v.flag("relu", a.relu);
    v.integer_or("groups", a.groups, 1);
  }
  friend bool operator==(const convolution&, const convolution&) = default;
};
// Backward operators compute the gradient of the product alone: their forward.relu is false.
struct convolution_backward_data {  // w, dy -> dx
  static constexpr std::string_view kind = "convolution_backward_data";
  convolution forward;
  friend bool operator==(const convolution_backward_data&, const convolution_backward_data&) = default;
};
struct convolution_backward_filter {  // x, dy -> dw      dw is f32
  static constexpr std::string_view kind = "convolution_backward_filter";
  convolution forward;
  friend bool operator==(const convolution_backward_filter&, const convolution_backward_filter&) = default;
};
struct bias_backward : no_attributes {  // dy -> db                sum over all axes but channels
  static constexpr std::string_view kind = "bias_backward";
};
// x -> y. May work in place. With relu6: y = min(max(x, 0), 6) (Sandler, Howard, Zhu, Zhmoginov and Chen
// 2018); its gradient passes where 0 < y < 6. In operators that a ReLU is joined to, too.
struct relu {
  static constexpr std::string_view kind = "relu";
  bool relu6 = false;
  static void fields(auto& a, auto&& v) { v.flag("capped", a.relu6); }
  friend bool operator==(const relu&, const relu&) = default;
};
struct relu_backward {  // y, dy -> dx             dx may take dy's place
  static constexpr std::string_view kind = "relu_backward";
  relu forward;
  friend bool operator==(const relu_backward&, const relu_backward&) = default;
};
// The gradient of a ReLU and of the bias before it, in one pass: db is the sum of dx.
struct relu_bias_backward : no_attributes {  // y, dy -> dx, db    dx may take dy's place
  static constexpr std::string_view kind = "relu_bias_backward";
};
// x [, b] -> y, index. A window that extends beyond the input is clipped. index: position of the maximum
// inside the window, row * window + column, of the first maximum; u8 while window^2 <= 256, otherwise u16.
// With relu and a bias, y = max(maximum + b, 0): the result of convolution, bias, ReLU and pool without the
// tensors in between.
struct max_pool {
  static constexpr std::string_view kind = "max_pool";
  std::int32_t window = 2, stride = 2, pad = 0;
  bool relu = false;
  static void fields(auto& a, auto&& v) {
    v.integer("window", a.window, 1);
    v.integer("stride", a.stride, 1);
    v.integer("pad", a.pad, 0);
    v.flag("relu", a.relu);
  }
  friend bool operator==(const max_pool&, const max_pool&) = default;
};
// dy, index [, y] -> dx [, db]. y is an input if forward.relu: no gradient passes where y is 0. db, if
// wanted, is the sum of dx.
struct max_pool_backward {
  static constexpr std::string_view kind = "max_pool_backward";
  max_pool forward;
  friend bool operator==(const max_pool_backward&, const max_pool_backward&) = default;
};
// x -> y. The mean over a window that is clipped to the input. The divisor is the number of elements in the
// clipped window or, counting padding, of those and the padding zeros in the window. Follows PyTorch's
// avg_pool2d, with and without ceil_mode.
struct average_pool {
  static constexpr std::string_view kind = "average_pool";
  std::int32_t window_h = 2, window_w = 2, stride_h = 2, stride_w = 2, pad_h = 0, pad_w = 0;
  bool count_include_pad = false;
  static void fields(auto& a, auto&& v) {
    v.pair("window", a.window_h, a.window_w, 1);
    v.pair("stride", a.stride_h, a.stride_w, 1);
    v.pair("pad", a.pad_h, a.pad_w, 0);
    v.flag("count_include_pad", a.count_include_pad);
  }
  friend bool operator==(const average_pool&, const average_pool&) = default;
};
struct average_pool_backward {  // dy -> dx
  static constexpr std::string_view kind = "average_pool_backward";
  average_pool forward;
  friend bool operator==(const average_pool_backward&, const average_pool_backward&) = default;
};
struct linear {  // x, w [, b] -> y                x is read as [n, c*h*w]; w is [out, c, h, w]
  static constexpr std::string_view kind = "linear";
  bool relu = false;
  static void fields(auto& a, auto&& v) { v.flag("relu", a.relu); }
  friend bool operator==(const linear&, const linear&) = default;
};
struct linear_backward_data : no_attributes {  // w, dy -> dx
  static constexpr std::string_view kind = "linear_backward_data";
};
struct linear_backward_filter
    : no_attributes {  // x, dy -> dw [, db]     dw and db are f32; db is the sum of dy
  static constexpr std::string_view kind = "linear_backward_filter";
};
// Batch normalisation in training mode (Ioffe and Szegedy 2015): statistics of the batch, biased
// variance. y = scale * (x - mean) * inverse_deviation + shift [+ residual], then ReLU if asked
// for. The four vectors are [1, c, 1, 1].
struct batch_norm {  // x, scale, shift [, residual] -> y, mean, inverse_deviation
  static constexpr std::string_view kind = "batch_norm";
  float epsilon = 1e-5F;
  bool relu = false, relu6 = false;
  static void fields(auto& a, auto&& v) {
    v.number("epsilon", a.epsilon, 0, 1);
    v.flag("relu", a.relu);
    v.flag("capped", a.relu6);
  }
  friend bool operator==(const batch_norm&, const batch_norm&) = default;
};
// Batch normalisation with given statistics: for inference, and to recompute y from x.
struct normalize {  // x, scale, shift, mean, inverse_deviation [, residual] -> y
  static constexpr std::string_view kind = "normalize";
  bool relu = false, relu6 = false;
  static void fields(auto& a, auto&& v) {
    v.flag("relu", a.relu);
    v.flag("capped", a.relu6);
  }
  friend bool operator==(const normalize&, const normalize&) = default;
};
// x, scale, shift, mean, inverse_deviation, dy [, dy2] [, y] -> dx, dscale, dshift [, dresidual].
// dy2 is given if `two_gradients`: the gradient of y is dy + dy2. With `residual`, dresidual is the
// gradient behind the ReLU. The ReLU's mask is read from y if `relu` and `residual`, and computed
// from x if `relu` alone. dresidual may take dy's place; without it dx may.
struct batch_norm_backward {
  static constexpr std::string_view kind = "batch_norm_backward";
  bool relu = false, residual = false, two_gradients = false, relu6 = false;
  static void fields(auto& a, auto&& v) {
    v.flag("relu", a.relu);
    v.flag("residual", a.residual);
    v.flag("two_gradients", a.two_gradients);
    v.flag("capped", a.relu6);
  }
  friend bool operator==(const batch_norm_backward&, const batch_norm_backward&) = default;
};
struct add : no_attributes {  // a, b -> y                         y may take a's place
  static constexpr std::string_view kind = "add";
};
// Two or more inputs -> y: their channels one after the other.
struct concat : no_attributes {
  static constexpr std::string_view kind = "concat";
};
struct concat_backward : no_attributes {  // dy -> one gradient per input of the concat, in their order
  static constexpr std::string_view kind = "concat_backward";
};
struct global_average_pool : no_attributes {  // x -> y            y is [n, c, 1, 1], the mean over each plane
  static constexpr std::string_view kind = "global_average_pool";
};
struct global_average_pool_backward : no_attributes {  // dy -> dx
  static constexpr std::string_view kind = "global_average_pool_backward";
};
struct cast : no_attributes {  // x -> y                           the same values, rounded to y's type
  static constexpr std::string_view kind = "cast";
};
struct softmax_cross_entropy : no_attributes {  // logits, labels -> loss, probabilities   mean over the batch
  static constexpr std::string_view kind = "softmax_cross_entropy";
};
struct softmax_cross_entropy_backward : no_attributes {  // probabilities, labels -> dlogits
  static constexpr std::string_view kind = "softmax_cross_entropy_backward";
};
// The loss and its gradient in one pass.
struct softmax_cross_entropy_gradient
    : no_attributes {  // logits, labels -> loss, dlogits   dlogits may take logits' place
  static constexpr std::string_view kind = "softmax_cross_entropy_gradient";
};
struct sgd_update {  // w, dw -> w                 w -= learning_rate * dw, in place; all f32
  static constexpr std::string_view kind = "sgd_update";
  float learning_rate = 0.01F;
  static void fields(auto& a, auto&& v) {
    constexpr double largest = 1e9;
    v.number("learning_rate", a.learning_rate, -largest, largest);
  }
  friend bool operator==(const sgd_update&, const sgd_update&) = default;
};

// The step of an optimizer over any number of parameters, in place, as torch.optim has it. Of each, in ->
// out:
//   w, dw [, m] [, v] [, master] -> w [, m] [, v] [, master]
// and last, with two moments, steps -> steps: how many came before (i32). Moments and masters are f32 and
// have the role `state`. A w in bf16 has a master, which is stepped and then rounded to w. With g = dw:
//   no moment    w -= learning_rate * g                                  SGD
//   one          m = beta1 * m + g; w -= learning_rate * m               SGD with momentum
//   two          AdamW (Loshchilov and Hutter 2019), bias-corrected by beta^(steps + 1)
struct optimizer_step {
  static constexpr std::string_view kind = "optimizer_step";
  std::int32_t moments = 0;
  float learning_rate = 0.01F, beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, decay = 0.01F;
  static void fields(auto& a, auto&& v) {
    constexpr double largest = 1e9;
    v.integer("moments", a.moments, 0);
    v.number("learning_rate", a.learning_rate, -largest, largest);
    v.number("beta1", a.beta1, 0, 1);
    v.number("beta2", a.beta2, 0, 1);
    v.number("epsilon", a.epsilon, 0, 1);
    v.number("decay", a.decay, 0, largest);
  }
  friend bool operator==(const optimizer_step&, const optimizer_step&) = default;
};

// How an operand of an opaque operator is cut if the operator runs part by part over the batch. whole: every
// part uses all of it. part: the same samples. sum: an output without a batch, the sum over the samples.
enum class batch_cut : std::uint8_t { whole, part, sum };
template <>
inline constexpr std::array enum_names<batch_cut>{"whole"sv, "part"sv, "sum"sv};

// An operator of an imported network: its accesses and its time are known, but not its function. It is
// planned and simulated like any other. On a GPU, a stand-in reads its inputs, writes its outputs and takes
// its time. Parameters that it updates in place are both inputs and outputs. It has its own reader and writer
// instead of fields().
struct opaque {  // any number of inputs -> at least one output
  static constexpr std::string_view kind = "opaque";
  std::string label;        // name in its framework, such as "gelu"
  std::uint64_t flops = 0;  // multiply and add count as two
  byte_count bytes = 0;     // bytes read and written; may be less than its operands hold
  bool products = false;    // whether flops are matrix products, at the rate of the graph's precision
  std::optional<nanoseconds> duration =
      {};  // time with everything resident; nothing: estimated from the machine's rates
  byte_count workspace_bytes = 0;
  std::vector<batch_cut> in = {}, out = {};  // one per operand; if both are empty, the operator cannot be cut
  friend bool operator==(const opaque&, const opaque&) = default;
};

// The kind of an operator, with its attributes.
struct op_attributes {
  std::variant<convolution, convolution_backward_data, convolution_backward_filter, bias_backward, relu,
               relu_backward, relu_bias_backward, max_pool, max_pool_backward, average_pool,
               average_pool_backward, linear, linear_backward_data, linear_backward_filter, batch_norm,
               normalize, batch_norm_backward, add, concat, concat_backward, global_average_pool,
               global_average_pool_backward, cast, softmax_cross_entropy, softmax_cross_entropy_backward,
               softmax_cross_entropy_gradient, sgd_update, optimizer_step, opaque>
      value;

  op_attributes() = default;
  op_attributes(auto kind) : value(std::move(kind)) {}
  friend bool operator==(const op_attributes&, const op_attributes&) = default;
};

// Passes the attributes of any kind but opaque to a visitor.
template <class Attributes, class Visitor>
void fields_of(Attributes& a, Visitor&& v) {
  using kind = std::remove_cv_t<Attributes>;
  if constexpr (requires { kind::fields(a, v); }) {
    kind::fields(a, v);
  } else if constexpr (requires { a.forward; }) {
    fields_of(a.forward, v);
  } else {
    static_assert(std::is_empty_v<kind>, "an operator with attributes has to say what they are called");
  }
}

// The operator's kind as written in plans and tables: "convolution_backward_data".
std::string_view kind_of(const op_attributes& attributes);
// One operator of each kind with default attributes, in the order of the variant.
std::vector<op_attributes> every_kind();

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace um
