#include "backends/cuda/convolution_engines.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace um {
namespace {

cudnn_convolution product_of(const convolution_problem& p) {
  const bool bf16 = p.arithmetic == precision::bf16;
  cudnn_convolution made{p.kind, p.x, p.w, p.y, p.how};
  made.how.relu = false;
  made.operands = bf16 ? dtype::bf16 : dtype::f32;
  made.result = bf16 && p.kind != convolution_kind::backward_filter ? dtype::bf16 : dtype::f32;
  made.order = p.order;
  made.tensor_cores = p.arithmetic != precision::fp32;
  made.accumulate = p.accumulate;
  made.alignment = p.alignment;
  return made;
}

struct timed_plan {
  cudnn_plan plan;
  engine_choice choice;
};

byte_count bytes_of(const dims& shape, dtype type) {
  return round_up(static_cast<byte_count>(elements(shape)) * size_of(type), arena_alignment);
}

bound_operands trial_operands(session& on, const convolution_problem& p, byte_count workspace) {
  const dtype type = p.arithmetic == precision::bf16 ? dtype::bf16 : dtype::f32;
  const std::array<byte_count, 4> bytes{bytes_of(p.x, type), bytes_of(p.w, dtype::f32), bytes_of(p.y, type),
                                        bytes_of({1, p.y.c, 1, 1}, dtype::f32)};
  bound_operands made;
  byte_count end = 0;
  for (const byte_count size : bytes) end += size;
  std::byte* at = on.scratch(end + workspace, type);
  for (const byte_count size : bytes) {
    made.data.push_back(at);
    at += size;
  }
  made.workspace = at;
  return made;
}

kernel_call bind_with_epilogue(session& on, const convolution_problem& p, const cudnn_plan& plan,
                               const bound_operands& operands) {
  kernel_call product = plan.bind(on, operands);
  if (!p.bias && !p.how.relu) return product;
  const dtype type = p.arithmetic == precision::bf16 ? dtype::bf16 : dtype::f32;
  const auto* const b = p.bias ? reinterpret_cast<const float*>(operands.data.at(3)) : nullptr;
  return [product = std::move(product), where = on.compute(), y = operands.data.at(2), b, relu = p.how.relu,
          form = kernels::form{p.y, type, p.order}] {
    product();
    kernels::bias_relu(where, y, b, relu, form);
  };
}

std::optional<nanoseconds> time_plan(session& on, const kernel_call& call, nanoseconds best) {
  try {
    const nanoseconds once = time_once(on, call);
    return once / 5 * 4 > best ? once : time_of(on, call);
  } catch (const cuda_error&) {
    return {};
  }
}

timed_plan fastest(session& on, const convolution_problem& problem, byte_count cap) {
  const auto plans = cudnn_candidates(on, product_of(problem)).build_all(cap);
  byte_count workspace = 0;
  for (const auto& [plan, position] : plans) workspace = std::max(workspace, plan.workspace_bytes());
  const bound_operands operands = trial_operands(on, problem, workspace);
  std::optional<timed_plan> best;
  for (const auto& [plan, position] : plans) {
    const nanoseconds to_beat = best ? best->choice.time : std::numeric_limits<nanoseconds>::max();
    const auto time = time_plan(on, bind_with_epilogue(on, problem, plan, operands), to_beat);
    if (!time || *time >= to_beat) continue;
    best =
        timed_plan{plan, {plan.name(), static_cast<std::int64_t>(position), plan.workspace_bytes(), *time}};
  }
  if (!best) {
    throw unsupported("cuDNN has no deterministic engine for " + signature_of(problem) + " within " +
                      to_text(cap) + " of workspace");
  }
  return *best;
}

std::optional<cudnn_plan> find_again(session& on, const convolution_problem& p, const engine_choice& choice) {
  return cudnn_candidates(on, product_of(p)).find(choice.engine, static_cast<std::size_t>(choice.position));
}

engine engine_of(session& on, const convolution_problem& p, const timed_plan& chosen) {
  return {chosen.choice, [&on, p, plan = chosen.plan](const bound_operands& operands) {
            return bind_with_epilogue(on, p, plan, operands);
          }};
}

}  // namespace

std::string signature_of(const convolution_problem& p) {
  constexpr std::array<const char*, 3> names{"convolution", "convolution_backward_data",
                                             "convolution_backward_filter"};
  return std::string(names.at(static_cast<std::size_t>(p.kind))) + " x " + to_text(p.x) + " w " +
         to_text(p.w) + " y " + to_text(p.y) + " stride " + std::to_string(p.how.stride_h) + ',' +
         std::to_string(p.how.stride_w) + " pad " + std::to_string(p.how.pad_h) + ',' +
         std::to_string(p.how.pad_w) + (p.bias ? " bias" : "") + (p.how.relu ? " relu" : "") + ' ' +
         std::string(to_text(p.arithmetic)) + ' ' + std::string(to_text(p.order)) +
         (p.accumulate ? " accumulate" : "") + " align " + std::to_string(p.alignment);
}

engine choose_engine(session& on, const convolution_problem& problem, byte_count workspace_cap) {
  const std::string key =
      on.engine_key(signature_of(problem) + " workspace " + std::to_string(workspace_cap));
  const auto known = on.engines().find(key);
  if (known) {
    if (const auto plan = find_again(on, problem, *known)) return engine_of(on, problem, {*plan, *known});
  }
  timed_plan chosen = fastest(on, problem, workspace_cap);
  const engine_choice standing = on.engines().store(key, chosen.choice, known);
  if (standing.engine != chosen.choice.engine) {  // another process was first: use what it chose
    const auto plan = find_again(on, problem, standing);
    if (!plan) throw unsupported("engine " + standing.engine + " of the engine cache is not to be had");
    chosen.plan = *plan;
  }
  return engine_of(on, problem, {chosen.plan, standing});
}

}  // namespace um
