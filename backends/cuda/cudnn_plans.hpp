// cuDNN's execution plans for one convolution. No other file includes cudnn-frontend, whose headers are
// slow to compile. It uses the frontend's descriptor layer, not its graph class: only that layer can bind
// operands once.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// A product as cuDNN computes it. With bias or relu, product and epilogue are one operation graph, y = max(x
// * w + b, 0), without a tensor in between. Only forward has them.
struct cudnn_convolution {
  convolution_kind kind = convolution_kind::forward;
  dims x, w, y;
  convolution attributes;  // relu: epilogue; pad: padding before x, from which that behind x follows
  bool has_bias = false;   // the engine adds a bias
  dtype operands = dtype::f32, result = dtype::f32;  // types of the two inputs, and of the result
  memory_order order = memory_order::nchw;
  bool allows_tensor_cores = false;  // f32 operands may be rounded to TF32
  bool accumulates = false;          // adds to the existing values of the result
};

// An execution plan that cuDNN has compiled. Copies are cheap.
class cudnn_plan {
 public:
  struct compiled_plan;
  explicit cudnn_plan(std::shared_ptr<const compiled_plan> from) : compiled_(std::move(from)) {}

  const std::string& name() const;
  byte_count workspace_bytes() const;
  // The data come in the order x, w, y [, b].
  kernel_call bind(session& gpu, const bound_operands& operands) const;

 private:
  std::shared_ptr<const compiled_plan> compiled_;
};

// cuDNN's candidates for a convolution, its best guesses first. They are deterministic, and compute in full
// fp32 unless tensor cores are allowed. Plans are built one by one, since some take a second.
class cudnn_candidates {
 public:
  cudnn_candidates(session& gpu, const cudnn_convolution& problem);
  ~cudnn_candidates();
  cudnn_candidates(cudnn_candidates&&) noexcept;
  cudnn_candidates& operator=(cudnn_candidates&&) noexcept;

  std::size_t size() const;
  // Returns the name that the plan would have, without building it; "" if cuDNN does not report it.
  std::string name_of(std::size_t position) const;
  // Returns nothing if cuDNN cannot build this plan here.
  std::optional<cudnn_plan> build(std::size_t position) const;

 private:
  struct candidate_list;
  std::unique_ptr<candidate_list> list_;
};

}  // namespace um
