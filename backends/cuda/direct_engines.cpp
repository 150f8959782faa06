#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/convolution_recipes.hpp"
#include "backends/cuda/session.hpp"

namespace um {
namespace {

kernels::direct_convolution direct_problem_of(const convolution_problem& p) {
  return {p.x, p.w, p.y, p.attributes, operand_type(p.arithmetic)};
}

kernels::grouped_convolution grouped_problem_of(const convolution_problem& p) {
  return {p.x, p.w, p.y, p.attributes, operand_type(p.arithmetic), p.order};
}

// One of these kernels computes a filter gradient.
enum class gradient_kernel : std::uint8_t { none, planar, shallow, deep };
gradient_kernel gradient_kernel_of(const convolution_problem& p) {
  const kernels::direct_convolution of = direct_problem_of(p);
  if (p.order == memory_order::nchw) {
    const bool fits = p.arithmetic == precision::fp32 && kernels::planar_filter_gradient_fits(of);
    return fits ? gradient_kernel::planar : gradient_kernel::none;
  }
  if (p.arithmetic == precision::fp32) return gradient_kernel::none;
  if (kernels::direct_filter_gradient_fits(of)) return gradient_kernel::shallow;
  return kernels::deep_filter_gradient_fits(of) ? gradient_kernel::deep : gradient_kernel::none;
}

kernel_call bind_grouped(session& gpu, const convolution_problem& p, const bound_operands& operands) {
  std::byte *const x = operands.data.at(0), *const w = operands.data.at(1), *const y = operands.data.at(2);
  const auto* const b = p.has_bias ? reinterpret_cast<const float*>(operands.data.at(3)) : nullptr;
  return [where = gpu.compute(), of = grouped_problem_of(p), kind = p.kind, x, w, y, b, add = p.accumulates,
          workspace = reinterpret_cast<float*>(operands.workspace)] {
    switch (kind) {
      case convolution_kind::forward:
        return kernels::grouped_forward(where, of, x, w, b, y);
      case convolution_kind::backward_data:
        return kernels::grouped_backward_data(where, of, w, y, x);
      case convolution_kind::backward_filter:
        return kernels::grouped_backward_filter(where, of, x, y, reinterpret_cast<float*>(w), add, workspace);
    }
  };
}

kernel_call bind_direct(session& gpu, const convolution_problem& p, const bound_operands& operands) {
  if (p.attributes.groups > 1) return bind_grouped(gpu, p, operands);
  std::byte *const x = operands.data.at(0), *const w = operands.data.at(1), *const y = operands.data.at(2);
  if (p.kind == convolution_kind::forward) {
    const auto* const b = p.has_bias ? reinterpret_cast<const float*>(operands.data.at(3)) : nullptr;
    return [where = gpu.compute(), of = direct_problem_of(p), x, w, y, b] {
      kernels::direct_forward(where, of, x, w, b, y);
    };
  }
  return [where = gpu.compute(), of = direct_problem_of(p), which = gradient_kernel_of(p), x, y,
          dw = reinterpret_cast<float*>(w), add = p.accumulates,
          workspace = reinterpret_cast<float*>(operands.workspace)] {
    const auto *const xs = reinterpret_cast<const float*>(x), *const ys = reinterpret_cast<const float*>(y);
    switch (which) {
      case gradient_kernel::planar:
        return kernels::planar_filter_gradient(where, of, xs, ys, dw, add, workspace);
      case gradient_kernel::shallow:
        return kernels::direct_filter_gradient(where, of, x, y, dw, add, workspace);
      case gradient_kernel::deep:
        return kernels::deep_filter_gradient(where, of, xs, ys, dw, add, workspace);
      case gradient_kernel::none:
        return;
    }
  };
}

byte_count workspace_of(session& gpu, const convolution_problem& p) {
  if (p.attributes.groups > 1) {
    return p.kind == convolution_kind::backward_filter
               ? kernels::grouped_filter_workspace(gpu.compute().multiprocessors, grouped_problem_of(p))
               : 0;
  }
  if (p.kind == convolution_kind::forward) return 0;
  const kernels::direct_convolution of = direct_problem_of(p);
  const int multiprocessors = gpu.compute().multiprocessors;
  switch (gradient_kernel_of(p)) {
    case gradient_kernel::planar:
      return kernels::planar_filter_gradient_workspace(multiprocessors, of);
    case gradient_kernel::shallow:
      return kernels::direct_filter_gradient_workspace(multiprocessors, of);
    case gradient_kernel::deep:
      return kernels::deep_filter_gradient_workspace(multiprocessors, of);
    case gradient_kernel::none:
      break;
  }
  return 0;
}

bool supports_problem(session& gpu, const convolution_problem& p) {
  if (p.attributes.groups > 1) return true;
  const kernels::direct_convolution of = direct_problem_of(p);
  const gradient_kernel which =
      p.kind == convolution_kind::forward ? gradient_kernel::none : gradient_kernel_of(p);
  const int max_shared = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu.device());
  if (which == gradient_kernel::planar) return kernels::planar_filter_gradient_shared_bytes(of) <= max_shared;
  constexpr int min_compute_capability = 8;  // the first with bf16 and TF32 tensor cores
  if (device_attribute(cudaDevAttrComputeCapabilityMajor, gpu.device()) < min_compute_capability)
    return false;
  return which != gradient_kernel::deep || kernels::deep_filter_gradient_shared_bytes(of) <= max_shared;
}

}  // namespace

bool direct_applies(const convolution_problem& p) {
  if (p.attributes.groups > 1) {
    constexpr std::int64_t index_limit = std::int64_t{1} << 31;
    return element_count(p.x) < index_limit && element_count(p.y) < index_limit &&
           p.w.c * p.w.h * p.w.w < 65536;
  }
  switch (p.kind) {
    case convolution_kind::forward:
      return p.arithmetic != precision::fp32 && p.order == memory_order::nhwc &&
             kernels::direct_forward_fits(direct_problem_of(p));
    case convolution_kind::backward_filter:
      return gradient_kernel_of(p) != gradient_kernel::none;
    case convolution_kind::backward_data:
      return false;
  }
  return false;
}

void visit_direct(session& gpu, const convolution_problem& p, std::int64_t parts,
                  const std::function<bool(const convolution_recipe&)>& visit) {
  if (parts != 1 || !supports_problem(gpu, p)) return;
  visit({"kernel", "kernel", 0, 1, round_up(workspace_of(gpu, p), arena_alignment),
         [&gpu, p](const bound_operands& operands) { return bind_direct(gpu, p, operands); }});
}

}  // namespace um
