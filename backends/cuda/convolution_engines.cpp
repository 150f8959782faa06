#include "backends/cuda/convolution_engines.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "backends/cuda/library_check.hpp"

namespace um {
namespace {

namespace fe = cudnn_frontend;
using shared_plan = std::shared_ptr<const fe::ExecutionPlan>;

constexpr std::array<std::int64_t, 3> operand_ids{'x', 'w', 'y'};

fe::Tensor describe(const dims& shape, std::int64_t id, std::int64_t alignment) {
  const std::array<std::int64_t, 4> extent{shape.n, shape.c, shape.h, shape.w};
  const std::array<std::int64_t, 4> stride{shape.c * shape.h * shape.w, shape.h * shape.w, shape.w, 1};
  return fe::TensorBuilder()
      .setDim(4, extent.data())
      .setStride(4, stride.data())
      .setId(id)
      .setAlignment(alignment)
      .setDataType(CUDNN_DATA_FLOAT)
      .build();
}

fe::ConvDesc describe(const convolution& how) {
  const std::array<std::int64_t, 2> pad{how.pad_h, how.pad_w};
  const std::array<std::int64_t, 2> stride{how.stride_h, how.stride_w};
  const std::array<std::int64_t, 2> dilation{1, 1};
  return fe::ConvDescBuilder()
      .setComputeType(CUDNN_DATA_FLOAT)
      .setMathMode(CUDNN_CROSS_CORRELATION)
      .setSpatialDimCount(2)
      .setSpatialStride(2, stride.data())
      .setPrePadding(2, pad.data())
      .setPostPadding(2, pad.data())
      .setDilation(2, dilation.data())
      .build();
}

fe::Operation describe(const convolution_problem& p) {
  const fe::Tensor x = describe(p.x, operand_ids[0], p.alignment);
  const fe::Tensor w = describe(p.w, operand_ids[1], p.alignment);
  const fe::Tensor y = describe(p.y, operand_ids[2], p.alignment);
  const fe::ConvDesc how = describe(p.how);
  const float beta = p.accumulate ? 1.0F : 0.0F;
  using type = fe::DescriptorType_t;
  switch (p.kind) {
    case convolution_kind::forward:
      return fe::OperationBuilder(type::OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
          .setxDesc(x)
          .setwDesc(w)
          .setyDesc(y)
          .setcDesc(how)
          .setAlpha(1.0F)
          .setBeta(beta)
          .build();
    case convolution_kind::backward_data:
      return fe::OperationBuilder(type::OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
          .setdxDesc(x)
          .setwDesc(w)
          .setdyDesc(y)
          .setcDesc(how)
          .setAlpha(1.0F)
          .setBeta(beta)
          .build();
    case convolution_kind::backward_filter:
      return fe::OperationBuilder(type::OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
          .setxDesc(x)
          .setdwDesc(w)
          .setdyDesc(y)
          .setcDesc(how)
          .setAlpha(1.0F)
          .setBeta(beta)
          .build();
  }
  throw unsupported("a convolution of unknown kind");
}

// Engines that would leave single precision, or whose sums depend on timing.
bool is_unwanted(cudnnBackendDescriptor_t config) {
  return fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_TENSOR_CORE>(config) ||
         fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS>(config) ||
         fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION>(config) ||
         fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>(config);
}

// cuDNN's candidates for a problem, best guesses first.
struct candidates {
  fe::OperationGraph graph;
  fe::EngineConfigList configs;
};

candidates candidates_of(session& on, const convolution_problem& problem) {
  const fe::Operation operation = describe(problem);
  std::array<const fe::Operation*, 1> operations{&operation};
  candidates found{
      fe::OperationGraphBuilder().setHandle(on.cudnn()).setOperationGraph(1, operations.data()).build(), {}};
  const std::vector<std::string> modes{"heuristics_mode_a", "heuristics_mode_b", "heuristics_fallback"};
  fe::get_heuristics_list(modes, found.graph, &is_unwanted, found.configs, /*evaluate_all=*/true);
  return found;
}

// Nothing if cuDNN cannot build this one here.
shared_plan build_plan(session& on, const candidates& from, std::size_t position) {
  try {
    return std::make_shared<const fe::ExecutionPlan>(
        fe::ExecutionPlanBuilder()
            .setHandle(on.cudnn())
            .setEngineConfig(from.configs[position], from.graph.getTag())
            .build());
  } catch (const fe::cudnnException&) {
    return nullptr;
  }
}

kernel_call bind_plan(session& on, const shared_plan& plan, const bound_operands& operands) {
  std::array<void*, 3> pointers{operands.data.at(0), operands.data.at(1), operands.data.at(2)};
  auto pack = std::make_shared<const fe::VariantPack>(fe::VariantPackBuilder()
                                                          .setDataPointers(3, pointers.data())
                                                          .setUids(3, operand_ids.data())
                                                          .setWorkspacePointer(operands.workspace)
                                                          .build());
  return [handle = on.cudnn(), plan, pack] {
    check(cudnnBackendExecute(handle, plan->get_raw_desc(), pack->get_raw_desc()));
  };
}

struct timed_plan {
  shared_plan plan;
  engine_choice choice;
};

byte_count float_bytes(const dims& shape) {
  return round_up(static_cast<byte_count>(elements(shape)) * sizeof(float), arena_alignment);
}

const dims& result_of(const convolution_problem& p) {
  const std::array<const dims*, 3> results{&p.y, &p.x, &p.w};
  return *results.at(static_cast<std::size_t>(p.kind));
}

// Scratch memory with operands of pseudo-random values, workspace, and a second result to hold the
// first one against.
struct trial_site {
  bound_operands operands;
  std::byte* result = nullptr;
  std::byte* expected = nullptr;
  std::int64_t result_elements = 0;
};

trial_site trial_site_of(session& on, const convolution_problem& p, byte_count workspace) {
  const byte_count w = float_bytes(p.x), y = w + float_bytes(p.w), expected = y + float_bytes(p.y);
  const byte_count end = expected + float_bytes(result_of(p));
  std::byte* const base = on.scratch(end + workspace);
  const std::array<std::byte*, 3> results{base + y, base, base + w};
  return {{{base, base + w, base + y}, base + end},
          results.at(static_cast<std::size_t>(p.kind)),
          base + expected,
          elements(result_of(p))};
}

// Writes the plan's result anew; false if the engine cannot run after all.
bool try_plan(session& on, const shared_plan& plan, const trial_site& site) {
  const auto bytes = static_cast<std::size_t>(site.result_elements) * sizeof(float);
  check(cudaMemsetAsync(site.result, 0, bytes, on.compute().stream));
  try {
    bind_plan(on, plan, site.operands)();
    check(cudaStreamSynchronize(on.compute().stream));
    return true;
  } catch (const cuda_error&) {
    return false;
  } catch (const fe::cudnnException&) {
    return false;
  }
}

double difference_from_expected(session& on, const trial_site& site) {
  return kernels::relative_difference(on.compute(), reinterpret_cast<const float*>(site.result),
                                      reinterpret_cast<const float*>(site.expected), site.result_elements);
}

// All different plans within the cap that can be built, in cuDNN's order.
std::vector<timed_plan> plans_of(session& on, const convolution_problem& problem, byte_count cap) {
  const candidates from = candidates_of(on, problem);
  std::vector<timed_plan> plans;
  for (std::size_t i = 0; i < from.configs.size(); ++i) {
    const shared_plan plan = build_plan(on, from, i);
    if (plan == nullptr) continue;
    const engine_choice choice{plan->getTag(), static_cast<std::int64_t>(i),
                               static_cast<byte_count>(plan->getWorkspaceSize()), 0};
    const bool seen = std::any_of(plans.begin(), plans.end(),
                                  [&](const timed_plan& p) { return p.choice.engine == choice.engine; });
    if (!seen && choice.workspace_bytes <= cap) plans.push_back({plan, choice});
  }
  return plans;
}

// A candidate far behind `best` is timed once only.
nanoseconds time_plan(session& on, const shared_plan& plan, const trial_site& site, nanoseconds best) {
  const kernel_call call = bind_plan(on, plan, site.operands);
  const nanoseconds once = time_once(on, call);
  return once / 5 * 4 > best ? once : time_of(on, call);
}

// Puts the result of a direct convolution where others are held against; false if there is none.
bool set_expected(session& on, const std::vector<timed_plan>& plans, const trial_site& site) {
  for (const timed_plan& p : plans) {
    if (p.choice.workspace_bytes != 0 || !try_plan(on, p.plan, site)) continue;
    const auto bytes = static_cast<std::size_t>(site.result_elements) * sizeof(float);
    check(cudaMemcpyAsync(site.expected, site.result, bytes, cudaMemcpyDeviceToDevice, on.compute().stream));
    return true;
  }
  return false;
}

timed_plan fastest(session& on, const convolution_problem& problem, byte_count cap) {
  const std::vector<timed_plan> plans = plans_of(on, problem, cap);
  byte_count workspace = 0;
  for (const timed_plan& p : plans) workspace = std::max(workspace, p.choice.workspace_bytes);
  const trial_site site = trial_site_of(on, problem, workspace);
  const bool checked = set_expected(on, plans, site);
  timed_plan best{nullptr, {{}, 0, 0, std::numeric_limits<nanoseconds>::max()}};
  for (timed_plan candidate : plans) {
    if (!try_plan(on, candidate.plan, site)) continue;
    if (checked && !(difference_from_expected(on, site) <= accuracy)) continue;
    candidate.choice.time = time_plan(on, candidate.plan, site, best.choice.time);
    if (candidate.choice.time < best.choice.time) best = candidate;
  }
  if (best.plan == nullptr) {
    throw unsupported("cuDNN has no deterministic single-precision engine for " + signature_of(problem) +
                      " within " + to_text(cap) + " of workspace");
  }
  return best;
}

// The plan of a choice made earlier, by whichever process; nothing if it is not to be had.
shared_plan find_again(session& on, const convolution_problem& problem, const engine_choice& choice) {
  const candidates from = candidates_of(on, problem);
  const auto there = static_cast<std::size_t>(choice.position);
  if (there < from.configs.size()) {
    const shared_plan plan = build_plan(on, from, there);
    if (plan != nullptr && plan->getTag() == choice.engine) return plan;
  }
  for (std::size_t i = 0; i < from.configs.size(); ++i) {
    const shared_plan plan = build_plan(on, from, i);
    if (plan != nullptr && plan->getTag() == choice.engine) return plan;
  }
  return nullptr;
}

engine engine_of(session& on, const timed_plan& chosen) {
  return {chosen.choice, [&on, plan = chosen.plan](const bound_operands& operands) {
            return bind_plan(on, plan, operands);
          }};
}

}  // namespace

std::string signature_of(const convolution_problem& p) {
  constexpr std::array<const char*, 3> names{"convolution", "convolution_backward_data",
                                             "convolution_backward_filter"};
  return std::string(names.at(static_cast<std::size_t>(p.kind))) + " x " + to_text(p.x) + " w " +
         to_text(p.w) + " y " + to_text(p.y) + " stride " + std::to_string(p.how.stride_h) + ',' +
         std::to_string(p.how.stride_w) + " pad " + std::to_string(p.how.pad_h) + ',' +
         std::to_string(p.how.pad_w) + " f32" + (p.accumulate ? " accumulate" : "") + " align " +
         std::to_string(p.alignment);
}

engine choose_engine(session& on, const convolution_problem& problem, byte_count workspace_cap) {
  const std::string key =
      on.engine_key(signature_of(problem) + " workspace " + std::to_string(workspace_cap));
  const auto known = on.engines().find(key);
  if (known) {
    if (const shared_plan plan = find_again(on, problem, *known)) return engine_of(on, {plan, *known});
  }
  timed_plan chosen = fastest(on, problem, workspace_cap);
  const engine_choice standing = on.engines().store(key, chosen.choice, known);
  if (standing.engine != chosen.choice.engine) {  // another process was first: use what it chose
    chosen.plan = find_again(on, problem, standing);
    if (chosen.plan == nullptr)
      throw unsupported("engine " + standing.engine + " of the engine cache is not to be had");
  }
  return engine_of(on, {chosen.plan, standing});
}

}  // namespace um
