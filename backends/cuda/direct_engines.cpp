#include "backends/cuda/direct_engines.hpp"

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/library_check.hpp"

namespace um {
namespace {

kernels::direct_convolution direct_of(const convolution_problem& p) {
  return {p.x, p.w, p.y, p.how, p.arithmetic == precision::bf16 ? dtype::bf16 : dtype::f32};
}

kernel_call bind_direct(session& on, const convolution_problem& p, const bound_operands& operands) {
  std::byte *const x = operands.data.at(0), *const w = operands.data.at(1), *const y = operands.data.at(2);
  if (p.kind == convolution_kind::forward) {
    const auto* const b = p.bias ? reinterpret_cast<const float*>(operands.data.at(3)) : nullptr;
    return [where = on.compute(), of = direct_of(p), x, w, y, b] {
      kernels::direct_forward(where, of, x, w, b, y);
    };
  }
  return [where = on.compute(), of = direct_of(p), x, y, dw = reinterpret_cast<float*>(w), add = p.accumulate,
          workspace = reinterpret_cast<float*>(operands.workspace)] {
    kernels::direct_filter_gradient(where, of, x, y, dw, add, workspace);
  };
}

}  // namespace

bool direct_applies(const convolution_problem& p) {
  if (p.arithmetic == precision::fp32 || p.order != memory_order::nhwc) return false;
  switch (p.kind) {
    case convolution_kind::forward:
      return kernels::direct_forward_fits(direct_of(p));
    case convolution_kind::backward_filter:
      return kernels::direct_filter_gradient_fits(direct_of(p));
    case convolution_kind::backward_data:
      return false;
  }
  return false;
}

void visit_direct(session& on, const convolution_problem& p, std::int64_t parts,
                  const std::function<bool(const convolution_recipe&)>& visit) {
  constexpr int tensor_cores_of_these = 8;  // compute capability
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, on.device()));
  if (parts != 1 || major < tensor_cores_of_these) return;
  const byte_count workspace =
      p.kind == convolution_kind::backward_filter
          ? kernels::direct_filter_gradient_workspace(on.compute().multiprocessors, direct_of(p))
          : 0;
  visit({"kernel", "kernel", 0, 1, round_up(workspace, arena_alignment),
         [&on, p](const bound_operands& operands) { return bind_direct(on, p, operands); }});
}

}  // namespace um
