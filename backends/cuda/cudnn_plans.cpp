#include "backends/cuda/cudnn_plans.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cuda/session.hpp"

namespace um {
namespace {

namespace fe = cudnn_frontend;
using fe_type = fe::DescriptorType_t;

// Tensors have these ids: the operands in the order in which they are bound, then those between product and
// epilogue.
constexpr std::array<std::int64_t, 4> operand_ids{'x', 'w', 'y', 'b'};
constexpr std::int64_t product_id = 'p', sum_id = 's';
constexpr std::int64_t pointer_alignment = 16;

cudnnDataType_t cudnn_type(dtype type) {
  return type == dtype::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

// A virtual tensor lies between operations and is never written to memory.
fe::Tensor describe_tensor(const dims& shape, std::int64_t id, dtype type, const cudnn_convolution& in,
                           bool is_virtual = false) {
  const dims strides = strides_of({{}, shape, type, role::activation, in.order});
  const std::array<std::int64_t, 4> extent{shape.n, shape.c, shape.h, shape.w};
  const std::array<std::int64_t, 4> stride{strides.n, strides.c, strides.h, strides.w};
  return fe::TensorBuilder()
      .setDim(4, extent.data())
      .setStride(4, stride.data())
      .setId(id)
      .setAlignment(pointer_alignment)
      .setDataType(cudnn_type(type))
      .setVirtual(is_virtual)
      .build();
}

fe::ConvDesc describe_convolution(const cudnn_convolution& p) {
  const convolution& attributes = p.attributes;
  const auto behind = [](std::int64_t extent, std::int64_t before, std::int64_t taps, std::int64_t stride,
                         std::int64_t results) {
    return std::max<std::int64_t>(padding_after(extent, before, taps, stride, results), 0);
  };
  const std::array<std::int64_t, 2> pad{attributes.pad_h, attributes.pad_w};
  const std::array<std::int64_t, 2> pad_behind{
      behind(p.x.h, attributes.pad_h, p.w.h, attributes.stride_h, p.y.h),
      behind(p.x.w, attributes.pad_w, p.w.w, attributes.stride_w, p.y.w)};
  const std::array<std::int64_t, 2> stride{attributes.stride_h, attributes.stride_w};
  const std::array<std::int64_t, 2> dilation{1, 1};
  return fe::ConvDescBuilder()
      .setComputeType(CUDNN_DATA_FLOAT)
      .setMathMode(CUDNN_CROSS_CORRELATION)
      .setSpatialDimCount(2)
      .setSpatialStride(2, stride.data())
      .setPrePadding(2, pad.data())
      .setPostPadding(2, pad_behind.data())
      .setDilation(2, dilation.data())
      .build();
}

bool needs_epilogue(const cudnn_convolution& p) {
  return p.has_bias || p.attributes.relu;
}

fe::Operation describe_product(const cudnn_convolution& p, const fe::Tensor& y) {
  using kind = convolution_kind;
  const fe::Tensor x =
      describe_tensor(p.x, operand_ids[0], p.kind == kind::backward_data ? p.result : p.operands, p);
  const fe::Tensor w =
      describe_tensor(p.w, operand_ids[1], p.kind == kind::backward_filter ? p.result : p.operands, p);
  const std::array<fe_type, 3> types{fe_type::OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                     fe_type::OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                     fe_type::OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
  fe::OperationBuilder made(types.at(static_cast<std::size_t>(p.kind)));
  made.setcDesc(describe_convolution(p)).setAlpha(1.0F).setBeta(p.accumulates ? 1.0F : 0.0F);
  switch (p.kind) {
    case kind::forward:
      return made.setxDesc(x).setwDesc(w).setyDesc(y).build();
    case kind::backward_data:
      return made.setdxDesc(x).setwDesc(w).setdyDesc(y).build();
    case kind::backward_filter:
      return made.setxDesc(x).setdwDesc(w).setdyDesc(y).build();
  }
  throw unsupported("a convolution of unknown kind");
}

fe::Operation describe_pointwise(cudnnPointwiseMode_t mode, const fe::Tensor& in, const fe::Tensor* second,
                                 const fe::Tensor& out) {
  const auto pointwise = fe::PointWiseDescBuilder().setMode(mode).setComputeType(CUDNN_DATA_FLOAT).build();
  fe::OperationBuilder made(fe_type::OPERATION_POINTWISE_DESCRIPTOR);
  made.setxDesc(in).setyDesc(out).setpwDesc(pointwise);
  if (second != nullptr) made.setbDesc(*second);
  return made.build();
}

fe::OperationGraph graph_of(session& gpu, const cudnn_convolution& p) {
  const dtype y_type = p.kind == convolution_kind::forward ? p.result : p.operands;
  const fe::Tensor y = describe_tensor(p.y, operand_ids[2], y_type, p);
  std::vector<fe::Operation> operations;
  if (!needs_epilogue(p)) {
    operations.push_back(describe_product(p, y));
  } else {
    const fe::Tensor product = describe_tensor(p.y, product_id, dtype::f32, p, true);
    const fe::Tensor sum = describe_tensor(p.y, sum_id, dtype::f32, p, true);
    operations.push_back(describe_product(p, product));
    if (p.has_bias) {
      const fe::Tensor b = describe_tensor({1, p.y.c, 1, 1}, operand_ids[3], dtype::f32, p);
      operations.push_back(describe_pointwise(CUDNN_POINTWISE_ADD, product, &b, p.attributes.relu ? sum : y));
    }
    if (p.attributes.relu)
      operations.push_back(
          describe_pointwise(CUDNN_POINTWISE_RELU_FWD, p.has_bias ? sum : product, nullptr, y));
  }
  std::vector<const fe::Operation*> pointers;
  for (const fe::Operation& o : operations) pointers.push_back(&o);
  return fe::OperationGraphBuilder()
      .setHandle(gpu.cudnn())
      .setOperationGraph(static_cast<std::int64_t>(pointers.size()), pointers.data())
      .build();
}

// Returns whether to reject an engine: its sums depend on timing, are rounded in between, or it computes in
// less than fp32 without permission.
bool is_rejected_engine(cudnnBackendDescriptor_t config, const cudnn_convolution& p) {
  if (fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>(config) ||
      fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION>(config)) {
    return true;
  }
  if (p.operands == dtype::bf16) return false;
  return fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS>(config) ||
         (!p.allows_tensor_cores && fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_TENSOR_CORE>(config));
}

template <class T>
bool read_attribute(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, T& value) {
  std::int64_t count = 0;
  return cudnnBackendGetAttribute(from, name, type, 1, &count, &value) == CUDNN_STATUS_SUCCESS;
}

// The engine and its knobs, as the frontend's ExecutionPlan::getTag() writes them; "" if they cannot be read.
std::string engine_text(cudnnBackendDescriptor_t config) {
  const auto engine = fe::make_shared_backend_pointer(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t engine_at = engine->get_backend_descriptor();
  std::int64_t index = 0, knobs = 0;
  if (!read_attribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, engine_at) ||
      !read_attribute(engine_at, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, index)) {
    return {};
  }
  std::vector<fe::ManagedOpaqueDescriptor> owners;
  std::vector<cudnnBackendDescriptor_t> choices;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    owners.push_back(fe::make_shared_backend_pointer(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    choices.push_back(owners.back()->get_backend_descriptor());
  }
  if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               CUDNN_KNOB_TYPE_COUNTS, &knobs, choices.data()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  std::string text = "eng" + std::to_string(index);
  for (std::int64_t i = 0; i < knobs; ++i) {
    const cudnnBackendDescriptor_t choice = choices.at(static_cast<std::size_t>(i));
    cudnnBackendKnobType_t type{};
    std::int64_t value = 0;
    if (!read_attribute(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type) ||
        !read_attribute(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value)) {
      return {};
    }
    text += "_k" + std::to_string(static_cast<int>(type)) + '=' + std::to_string(value);
  }
  return text;
}

}  // namespace

struct cudnn_plan::compiled_plan {
  fe::ExecutionPlan plan;
  std::string name;
  std::size_t operands = 3;
};

const std::string& cudnn_plan::name() const {
  return compiled_->name;
}

byte_count cudnn_plan::workspace_bytes() const {
  return static_cast<byte_count>(compiled_->plan.getWorkspaceSize());
}

kernel_call cudnn_plan::bind(session& gpu, const bound_operands& operands) const {
  std::array<void*, 4> pointers{};
  const std::size_t count = compiled_->operands;
  for (std::size_t i = 0; i < count; ++i) pointers.at(i) = operands.data.at(i);
  auto pack = std::make_shared<const fe::VariantPack>(
      fe::VariantPackBuilder()
          .setDataPointers(static_cast<std::int64_t>(count), pointers.data())
          .setUids(static_cast<std::int64_t>(count), operand_ids.data())
          .setWorkspacePointer(operands.workspace)
          .build());
  return [handle = gpu.cudnn(), compiled = compiled_, pack] {
    check(cudnnBackendExecute(handle, compiled->plan.get_raw_desc(), pack->get_raw_desc()));
  };
}

struct cudnn_candidates::candidate_list {
  cudnnHandle_t handle;
  std::size_t operands;
  fe::OperationGraph graph;
  fe::EngineConfigList configs;
};

cudnn_candidates::cudnn_candidates(session& gpu, const cudnn_convolution& problem) {
  try {
    list_.reset(new candidate_list{
        gpu.cudnn(), problem.has_bias ? std::size_t{4} : std::size_t{3}, graph_of(gpu, problem), {}});
  } catch (const fe::cudnnException&) {
    return;  // cuDNN does not support such a graph: no candidates
  }
  const auto unwanted = [&](cudnnBackendDescriptor_t config) { return is_rejected_engine(config, problem); };
  const auto slow_to_make = [&](cudnnBackendDescriptor_t config) {
    return unwanted(config) || fe::hasBehaviorNote<CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION>(config);
  };
  const auto ask = [&](const std::vector<std::string>& modes, const auto& left_out) {
    fe::get_heuristics_list(modes, list_->graph, left_out, list_->configs, /*evaluate_all=*/true);
  };
  if (gpu.options().brief_search) ask({"heuristics_mode_a", "heuristics_fallback"}, slow_to_make);
  if (list_->configs.empty()) {
    ask({"heuristics_mode_a", "heuristics_mode_b", "heuristics_fallback"}, unwanted);
  }
}

cudnn_candidates::~cudnn_candidates() = default;
cudnn_candidates::cudnn_candidates(cudnn_candidates&&) noexcept = default;
cudnn_candidates& cudnn_candidates::operator=(cudnn_candidates&&) noexcept = default;

std::size_t cudnn_candidates::size() const {
  return list_ ? list_->configs.size() : 0;
}

std::string cudnn_candidates::name_of(std::size_t position) const {
  const std::string engine = engine_text(list_->configs.at(position)->get_backend_descriptor());
  return engine.empty() ? engine : list_->graph.getTag() + engine;
}

std::optional<cudnn_plan> cudnn_candidates::build(std::size_t position) const {
  if (position >= size()) return {};
  try {
    fe::ExecutionPlan plan = fe::ExecutionPlanBuilder()
                                 .setHandle(list_->handle)
                                 .setEngineConfig(list_->configs[position], list_->graph.getTag())
                                 .build();
    const std::string name = plan.getTag();
    return cudnn_plan(std::make_shared<const cudnn_plan::compiled_plan>(
        cudnn_plan::compiled_plan{std::move(plan), name, list_->operands}));
  } catch (const fe::cudnnException&) {
    return {};
  }
}

}  // namespace um
