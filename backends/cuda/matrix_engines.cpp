#include "backends/cuda/matrix_engines.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/library_check.hpp"

namespace um {
namespace {

using matmul_description = handle<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using matrix_layout = handle<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using matmul_preference = handle<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(const matmul_description& to, cublasLtMatmulDescAttributes_t what, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(to.get(), what, &value, sizeof value));
}
template <class Value>
void set(const matmul_preference& to, cublasLtMatmulPreferenceAttributes_t what, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(to.get(), what, &value, sizeof value));
}

matrix_layout make_layout(std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, CUDA_R_32F, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows));
  return matrix_layout(raw);
}

// A product d = op(a) op(b) in cuBLAS's column-major terms, in which our row-major matrices read
// transposed: x is in*n, w is in*out, y is out*n. `a`, `b`, `d` index the operands x, w, y.
struct product {
  matmul_description how;
  std::array<matrix_layout, 3> layout;  // of x, w, y
  std::size_t a = 0, b = 0, d = 0;
  float beta = 0.0F;
};

product describe(const matrix_problem& p) {
  cublasLtMatmulDesc_t raw = nullptr;
  check(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  product made{matmul_description(raw),
               {make_layout(p.in, p.n), make_layout(p.in, p.out), make_layout(p.out, p.n)}};
  made.beta = p.accumulate ? 1.0F : 0.0F;
  constexpr std::size_t x = 0, w = 1, y = 2;
  switch (p.kind) {
    case matrix_kind::forward:
      set(made.how, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
      made.a = w, made.b = x, made.d = y;
      break;
    case matrix_kind::backward_data:
      made.a = w, made.b = y, made.d = x;
      break;
    case matrix_kind::backward_filter:
      set(made.how, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
      made.a = x, made.b = y, made.d = w;
      break;
  }
  if (p.bias) set(made.how, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  return made;
}

using algorithm = cublasLtMatmulAlgo_t;

// cuBLASLt lets an algorithm be stored and restored as it is, for the same version of the library.
std::string text_of(const algorithm& a) {
  std::string text = "cublaslt";
  for (const std::uint64_t word : a.data) {
    std::array<char, 20> hex{};
    std::snprintf(hex.data(), hex.size(), " %llx", static_cast<unsigned long long>(word));
    text += hex.data();
  }
  return text;
}

std::optional<algorithm> parse_algorithm(const std::string& text) {
  constexpr const char* name = "cublaslt";
  if (text.rfind(name, 0) != 0) return {};
  algorithm a{};
  const char* at = text.c_str() + std::strlen(name);
  for (std::uint64_t& word : a.data) {
    char* end = nullptr;
    word = std::strtoull(at, &end, 16);
    if (end == at) return {};
    at = end;
  }
  return a;
}

kernel_call bind_product(session& on, const matrix_problem& p, const algorithm& how,
                         byte_count workspace_bytes, const bound_operands& operands) {
  auto made = std::make_shared<product>(describe(p));
  if (p.bias) {
    const void* const bias = operands.data.at(3);
    set(made->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  const std::array<std::byte*, 3> at{operands.data.at(0), operands.data.at(1), operands.data.at(2)};
  return [made, how, at, workspace_bytes, workspace = operands.workspace, library = on.cublas(),
          stream = on.compute().stream] {
    const float alpha = 1.0F;
    const auto& layout = made->layout;
    const auto d = made->d;
    check(cublasLtMatmul(library, made->how.get(), &alpha, at[made->a], layout[made->a].get(), at[made->b],
                         layout[made->b].get(), &made->beta, at[d], layout[d].get(), at[d], layout[d].get(),
                         &how, workspace, workspace_bytes, stream));
  };
}

// Operands one after another in scratch memory.
bound_operands scratch_operands(session& on, const matrix_problem& p, byte_count workspace) {
  const std::array<std::int64_t, 4> counts{p.n * p.in, p.out * p.in, p.n * p.out, p.out};
  std::array<byte_count, 5> offset{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto bytes = static_cast<byte_count>(counts[i]) * sizeof(float);
    offset[i + 1] = offset[i] + round_up(bytes, arena_alignment);
  }
  std::byte* base = on.scratch(offset[4] + workspace);
  return {{base, base + offset[1], base + offset[2], base + offset[3]}, base + offset[4]};
}

std::vector<cublasLtMatmulHeuristicResult_t> proposals(session& on, const matrix_problem& p, byte_count cap) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw));
  const matmul_preference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(cap));
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, operand, p.alignment);
  }
  const product made = describe(p);
  std::vector<cublasLtMatmulHeuristicResult_t> found(32);
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      on.cublas(), made.how.get(), made.layout[made.a].get(), made.layout[made.b].get(),
      made.layout[made.d].get(), made.layout[made.d].get(), preference.get(), static_cast<int>(found.size()),
      found.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
  found.resize(static_cast<std::size_t>(count));
  return found;
}

engine_choice fastest(session& on, const matrix_problem& problem, byte_count cap) {
  const auto proposed = proposals(on, problem, cap);
  std::size_t workspace = 0;
  for (const auto& proposal : proposed) workspace = std::max(workspace, proposal.workspaceSize);
  const bound_operands operands = scratch_operands(on, problem, std::min<byte_count>(workspace, cap));
  engine_choice best{{}, 0, 0, std::numeric_limits<nanoseconds>::max()};
  std::int64_t position = 0;
  for (const auto& proposal : proposed) {
    const std::int64_t here = position++;
    if (proposal.state != CUBLAS_STATUS_SUCCESS || proposal.workspaceSize > cap) continue;
    try {
      const nanoseconds time =
          time_of(on, bind_product(on, problem, proposal.algo, proposal.workspaceSize, operands));
      if (time < best.time) best = {text_of(proposal.algo), here, proposal.workspaceSize, time};
    } catch (const cuda_error&) {
      continue;  // proposed, but refused when called
    }
  }
  if (best.engine.empty()) {
    throw unsupported("cuBLASLt has no single-precision algorithm for " + signature_of(problem) + " within " +
                      to_text(cap) + " of workspace");
  }
  return best;
}

}  // namespace

std::string signature_of(const matrix_problem& p) {
  constexpr std::array<const char*, 3> names{"linear", "linear_backward_data", "linear_backward_filter"};
  return std::string(names.at(static_cast<std::size_t>(p.kind))) + " n " + std::to_string(p.n) + " in " +
         std::to_string(p.in) + " out " + std::to_string(p.out) + (p.bias ? " bias" : "") + " f32" +
         (p.accumulate ? " accumulate" : "") + " align " + std::to_string(p.alignment);
}

engine choose_engine(session& on, const matrix_problem& problem, byte_count workspace_cap) {
  const std::string key =
      on.engine_key(signature_of(problem) + " workspace " + std::to_string(workspace_cap));
  auto choice = on.engines().find(key);
  if (!choice || !parse_algorithm(choice->engine)) {
    choice = on.engines().store(key, fastest(on, problem, workspace_cap), choice);
  }
  const auto how = parse_algorithm(choice->engine);
  if (!how) throw unsupported("algorithm " + choice->engine + " of the engine cache cannot be read");
  return {*choice,
          [&on, problem, how = *how, bytes = choice->workspace_bytes](const bound_operands& operands) {
            return bind_product(on, problem, how, bytes, operands);
          }};
}

}  // namespace um
