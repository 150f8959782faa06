#include "backends/cuda/matrix_engines.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/cublas_descriptors.hpp"

namespace um {
namespace {

// A product d = op(a) op(b) in cuBLAS's column-major terms, in which row-major matrices appear transposed:
// x is in*n, w is in*out, y is out*n. `a`, `b`, `d` index the operands x, w, y.
struct product {
  matmul_description description;
  std::array<matrix_layout, 3> layout;  // layouts of x, w, y
  std::size_t a = 0, b = 0, d = 0;
  float beta = 0.0F;
};

dtype filter_type(const matrix_problem& p) {
  return p.kind == matrix_kind::backward_filter ? dtype::f32 : operand_type(p.arithmetic);
}

bool has_bias_or_relu(const matrix_problem& p) {
  return p.has_bias || p.relu;
}

// cuBLASLt cannot add to a bias gradient.
bool can_fuse_epilogue(const matrix_problem& p) {
  return has_bias_or_relu(p) && !(p.kind == matrix_kind::backward_filter && p.accumulate);
}

cublasLtEpilogue_t epilogue_of(const matrix_problem& p) {
  if (p.kind == matrix_kind::backward_filter) return CUBLASLT_EPILOGUE_BGRADB;
  if (!p.relu) return CUBLASLT_EPILOGUE_BIAS;
  return p.has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
}

// With `fused`, bias, ReLU or bias gradient are the product's epilogue; otherwise they are a separate pass.
product describe_matrix_product(const matrix_problem& p, bool fused) {
  const auto multiplied = p.arithmetic == precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const dtype type = operand_type(p.arithmetic);
  product made{make_matmul_description(multiplied),
               {make_layout(type, p.in, p.n), make_layout(filter_type(p), p.in, p.out),
                make_layout(type, p.out, p.n)}};
  made.beta = p.accumulate ? 1.0F : 0.0F;
  constexpr std::size_t x = 0, w = 1, y = 2;
  switch (p.kind) {
    case matrix_kind::forward:
      set_attribute(made.description, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
      made.a = w, made.b = x, made.d = y;
      break;
    case matrix_kind::backward_data:
      made.a = w, made.b = y, made.d = x;
      break;
    case matrix_kind::backward_filter:
      set_attribute(made.description, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
      made.a = x, made.b = y, made.d = w;
      break;
  }
  if (fused) {
    set_attribute(made.description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
    if (p.has_bias) set_attribute(made.description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  }
  return made;
}

using matmul_algorithm = cublasLtMatmulAlgo_t;

// An algorithm that the engine cache stores as text. The same version of cuBLASLt can restore it.
struct named_algorithm {
  matmul_algorithm algorithm{};
  bool fused = false;
};
constexpr const char* plain_name = "cublaslt";
constexpr const char* fused_name = "cublaslt+epilogue";

std::string text_of(const named_algorithm& a) {
  std::string text = a.fused ? fused_name : plain_name;
  for (const std::uint64_t word : a.algorithm.data) {
    std::array<char, 20> hex{};
    std::snprintf(hex.data(), hex.size(), " %llx", static_cast<unsigned long long>(word));
    text += hex.data();
  }
  return text;
}

std::optional<named_algorithm> parse_algorithm(const std::string& text) {
  named_algorithm a;
  a.fused = text.rfind(fused_name, 0) == 0;
  const char* const name = a.fused ? fused_name : plain_name;
  if (text.rfind(name, 0) != 0) return {};
  const char* at = text.c_str() + std::strlen(name);
  for (std::uint64_t& word : a.algorithm.data) {
    char* end = nullptr;
    word = std::strtoull(at, &end, 16);
    if (end == at) return {};
    at = end;
  }
  return a;
}

// Bias, ReLU or bias gradient may be a separate pass after the product, in the product's workspace. Parts
// after the first need this pass even if the first fuses the epilogue, since they add to the result.
byte_count bias_pass_workspace(const matrix_problem& p) {
  if (!p.has_bias || p.kind != matrix_kind::backward_filter) return 0;
  return kernels::bias_backward_workspace(
      {{p.n, p.out, 1, 1}, operand_type(p.arithmetic), memory_order::nchw});
}

kernel_call bind_bias_pass(session& gpu, const matrix_problem& p, const bound_operands& operands) {
  const kernels::tensor_form of{{p.n, p.out, 1, 1}, operand_type(p.arithmetic), memory_order::nchw};
  auto* const b = p.has_bias ? reinterpret_cast<float*>(operands.data.at(3)) : nullptr;
  if (p.kind == matrix_kind::backward_filter) {
    return [where = gpu.compute(), dy = operands.data.at(2), b, of, adds = p.accumulate,
            workspace = reinterpret_cast<float*>(operands.workspace)] {
      kernels::bias_backward(where, dy, b, of, adds, workspace);
    };
  }
  return [where = gpu.compute(), y = operands.data.at(2), b, of, relu = p.relu] {
    kernels::bias_relu(where, y, b, relu, of);
  };
}

kernel_call bind_product(session& gpu, const matrix_problem& p, const named_algorithm& chosen,
                         byte_count workspace_bytes, const bound_operands& operands) {
  auto made = std::make_shared<product>(describe_matrix_product(p, chosen.fused));
  if (chosen.fused && p.has_bias) {
    const void* const bias = operands.data.at(3);
    set_attribute(made->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  const std::array<std::byte*, 3> at{operands.data.at(0), operands.data.at(1), operands.data.at(2)};
  return [made, algorithm = chosen.algorithm, at, workspace_bytes, workspace = operands.workspace,
          library = gpu.cublas(), stream = gpu.compute().stream] {
    const float alpha = 1.0F;
    const auto& layout = made->layout;
    const auto d = made->d;
    check(cublasLtMatmul(library, made->description.get(), &alpha, at[made->a], layout[made->a].get(),
                         at[made->b], layout[made->b].get(), &made->beta, at[d], layout[d].get(), at[d],
                         layout[d].get(), &algorithm, workspace, workspace_bytes, stream));
  };
}

kernel_call bind_product_and_bias(session& gpu, const matrix_problem& p, const named_algorithm& chosen,
                                  byte_count workspace_bytes, const bound_operands& operands) {
  kernel_call product = bind_product(gpu, p, chosen, workspace_bytes, operands);
  if (chosen.fused || !has_bias_or_relu(p)) return product;
  return [product = std::move(product), pass = bind_bias_pass(gpu, p, operands)] {
    product();
    pass();
  };
}

// The operands lie one after another in scratch memory.
bound_operands scratch_operands(session& gpu, const matrix_problem& p, byte_count workspace) {
  const std::array<std::int64_t, 4> counts{p.n * p.in, p.out * p.in, p.n * p.out, p.out};
  std::array<byte_count, 5> offset{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto bytes = static_cast<byte_count>(counts[i]) * sizeof(float);
    offset[i + 1] = offset[i] + round_up(bytes, arena_alignment);
  }
  std::byte* base = gpu.random_scratch(offset[4] + workspace, operand_type(p.arithmetic));
  return {{base, base + offset[1], base + offset[2], base + offset[3]}, base + offset[4]};
}

struct proposal {
  named_algorithm algorithm;
  byte_count workspace_bytes = 0;
};

void append_proposals(session& gpu, const matrix_problem& p, byte_count cap, bool with_epilogue,
                      std::vector<proposal>& to) {
  const matmul_preference preference = make_preference(cap, p.alignment);
  if (operand_type(p.arithmetic) == dtype::bf16) {  // split-K sums are fp32, too
    set_attribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                  static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  const product made = describe_matrix_product(p, with_epilogue);
  std::array<cublasLtMatmulHeuristicResult_t, 32> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      gpu.cublas(), made.description.get(), made.layout[made.a].get(), made.layout[made.b].get(),
      made.layout[made.d].get(), made.layout[made.d].get(), preference.get(), static_cast<int>(found.size()),
      found.data(), &count);
  // cuBLASLt reports an epilogue that these types do not support as an invalid value.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (with_epilogue && status == CUBLAS_STATUS_INVALID_VALUE))
    return;
  check(status);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS || found[i].workspaceSize > cap) continue;
    to.push_back({{found[i].algo, with_epilogue}, found[i].workspaceSize});
  }
}

// Algorithms with a fused epilogue come first.
std::vector<proposal> proposals_for(session& gpu, const matrix_problem& p, byte_count cap) {
  std::vector<proposal> all;
  if (can_fuse_epilogue(p)) append_proposals(gpu, p, cap, true, all);
  append_proposals(gpu, p, cap, false, all);
  for (proposal& one : all) one.workspace_bytes = std::max(one.workspace_bytes, bias_pass_workspace(p));
  return all;
}

engine_choice fastest_engine(session& gpu, const matrix_problem& problem, byte_count cap) {
  const auto proposed = proposals_for(gpu, problem, cap);
  byte_count workspace = 0;
  for (const proposal& one : proposed) workspace = std::max(workspace, one.workspace_bytes);
  const bound_operands operands = scratch_operands(gpu, problem, workspace);
  engine_choice best{{}, 0, 0, std::numeric_limits<nanoseconds>::max()};
  std::int64_t position = 0;
  for (const proposal& one : proposed) {
    const std::int64_t here = position++;
    try {
      const kernel_call call =
          bind_product_and_bias(gpu, problem, one.algorithm, one.workspace_bytes, operands);
      const bool is_brief = gpu.options().brief_search;
      const nanoseconds time = is_brief ? median_time(gpu, call, 0, 1) : measure_time(gpu, call);
      if (time < best.time) best = {text_of(one.algorithm), here, one.workspace_bytes, time};
      if (is_brief) break;
    } catch (const cuda_error&) {
      continue;  // cuBLASLt proposes some algorithms that it then fails to run
    }
  }
  if (best.engine.empty()) {
    throw unsupported("cuBLASLt has no algorithm for " + signature_of(problem) + " within " + to_text(cap) +
                      " of workspace");
  }
  return best;
}

}  // namespace

std::string signature_of(const matrix_problem& p) {
  constexpr std::array<const char*, 3> names{"linear", "linear_backward_data", "linear_backward_filter"};
  return std::string(names.at(static_cast<std::size_t>(p.kind))) + " n " + std::to_string(p.n) + " in " +
         std::to_string(p.in) + " out " + std::to_string(p.out) + (p.has_bias ? " bias" : "") +
         (p.relu ? " relu" : "") + ' ' + std::string(to_text(p.arithmetic)) +
         (p.accumulate ? " accumulate" : "") + " align " + std::to_string(p.alignment);
}

engine choose_engine(session& gpu, const matrix_problem& problem, byte_count workspace_cap) {
  const auto usable = [](const engine_choice& choice) { return parse_algorithm(choice.engine).has_value(); };
  const engine_choice choice = find_or_search(gpu, signature_of(problem), workspace_cap, {}, usable,
                                              [&] { return fastest_engine(gpu, problem, workspace_cap); });
  const auto algorithm = parse_algorithm(choice.engine);
  if (!algorithm) throw unsupported("algorithm " + choice.engine + " of the engine cache cannot be read");
  return {choice, [&gpu, problem, chosen = *algorithm,
                   bytes = choice.workspace_bytes](const bound_operands& operands) {
            return bind_product_and_bias(gpu, problem, chosen, bytes, operands);
          }};
}

}  // namespace um
