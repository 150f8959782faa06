// A convolution or one of its gradients, as engines compute it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"
#include "core/graph.hpp"

namespace um {

enum class convolution_kind : std::uint8_t { forward, backward_data, backward_filter };

// Returns the rows (or columns) of padding after `extent` elements, given the padding before them: the same
// number if it gives `results`, else the fewest that do. It is negative if elements are left over after the
// last window.
constexpr std::int64_t padding_after(std::int64_t extent, std::int64_t before, std::int64_t taps,
                                     std::int64_t stride, std::int64_t results) {
  const std::int64_t fewest = (results - 1) * stride + taps - extent - before;
  return fewest <= before && before < fewest + stride ? before : fewest;
}

// Operands may be parts of tensors. `attributes` has the padding above and left of x; it is negative if x
// begins with rows that no window covers. The padding below and right follows from the shapes.
struct convolution_problem {
  convolution_kind kind = convolution_kind::forward;
  dims x, w, y;
  convolution attributes;                  // with relu: forward alone, y = max(x * w [+ b], 0)
  bool has_bias = false;                   // forward only
  bool accumulates = false;                // adds to the existing result; without bias or relu
  precision arithmetic = precision::fp32;  // bf16: x, w and y are bf16, but the result dw is f32
  memory_order order = memory_order::nchw;
};
std::string signature_of(const convolution_problem& problem);

// Products are of operands of this type; sums are f32.
constexpr dtype operand_type(precision arithmetic) {
  return arithmetic == precision::bf16 ? dtype::bf16 : dtype::f32;
}

// An engine's relative error may not be larger, compared with double precision.
constexpr double tolerance_of(precision arithmetic) {
  return arithmetic == precision::fp32 ? 1e-4 : arithmetic == precision::tf32 ? 2e-3 : 2e-2;
}

// One way to compute a convolution.
struct convolution_recipe {
  std::string name;
  std::string engine_family;  // variants of one engine share it: if one is far behind, so are the others
  std::int64_t position = 0;  // in the library's list of candidates
  std::int64_t parts = 1;     // equal parts of the batch, computed one after the other
  byte_count workspace_bytes = 0;
  std::function<kernel_call(const bound_operands&)> bind;
};

// Chooses the fastest way to compute a convolution. Only deterministic engines are tried. A problem whose
// fastest engine needs more workspace than allowed is cut into parts along the batch, each within the cap
// (µ-cuDNN, Oyama et al. 2018).

// Returns the fastest recipe within `workspace_cap`: from the engine cache or, the first time, by timing. A
// recipe is rejected if the relative error of its result exceeds tolerance_of(). (cuDNN 9.19 has an unmarked
// filter gradient for 5x5 filters that is off by 1e-3 in fp32.) Throws unsupported if there is none. Operands
// come in the order x, w, y [, b] for every direction. Each address is a multiple of 16 bytes. b is f32.
engine choose_engine(session& gpu, const convolution_problem& problem, byte_count workspace_cap);

}  // namespace um
