#include "ooc/umbench_ooc.h"

#include <cmath>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "ooc/calling.hpp"

struct oocContext {
  std::unique_ptr<um::ooc::calling> device;  // from the first call that computes on
  um::byte_count budget = 0;
  std::size_t parts = 0;
  std::string message;
};
struct oocTensorStruct {
  um::dims shape{};
  um::memory_order order = um::memory_order::nchw;
  bool set = false;
};
struct oocFilterStruct : oocTensorStruct {};
struct oocConvolutionStruct {
  um::convolution how;
  bool set = false;
};
struct oocActivationStruct {
  bool set = false;
};
struct oocPoolingStruct {
  um::max_pool how;
  bool set = false;
};

namespace {

using namespace um;
using kind = ooc_call::kind;

// --- descriptors ---

template <class T>
cudnnStatus_t create(T** made) {
  if (made == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *made = new (std::nothrow) T;
  return *made == nullptr ? CUDNN_STATUS_ALLOC_FAILED : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set(oocTensorStruct* desc, cudnnTensorFormat_t format, cudnnDataType_t type,
                  const dims& shape) {
  if (desc == nullptr || shape.n < 1 || shape.c < 1 || shape.h < 1 || shape.w < 1)
    return CUDNN_STATUS_BAD_PARAM;
  if (type != CUDNN_DATA_FLOAT || (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC))
    return CUDNN_STATUS_NOT_SUPPORTED;
  desc->shape = shape;
  desc->order = format == CUDNN_TENSOR_NCHW ? memory_order::nchw : memory_order::nhwc;
  desc->set = true;
  return CUDNN_STATUS_SUCCESS;
}

// --- calls ---

struct refused : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

void need(bool good, const char* what) {
  if (!good) throw refused(what);
}

float factor(const void* at) {
  need(at != nullptr, "alpha or beta is null");
  return *static_cast<const float*>(at);
}
void need_factors(const void* alpha, const void* beta, float wanted_beta = 0) {
  if (factor(alpha) != 1 || factor(beta) != wanted_beta)
    throw unsupported(wanted_beta == 0 ? "alpha is to be 1 and beta 0" : "alpha and beta are to be 1");
}

template <class Desc>
const Desc& given(const Desc* desc) {
  need(desc != nullptr && desc->set, "a descriptor is null or was not set");
  return *desc;
}

// Builds the graph of a call.
class call_builder {
 public:
  explicit call_builder(kind what) { call_.what = what; }

  tensor_id operand(const char* name, const oocTensorStruct* desc, const void* place, role use) {
    need(place != nullptr, "an operand is null");
    const oocTensorStruct& d = given(desc);
    call_.place.push_back(static_cast<std::byte*>(const_cast<void*>(place)));
    return add({name, d.shape, dtype::f32, use, d.order});
  }
  // On the device while a part is computed.
  tensor_id between(const char* name, const dims& shape, memory_order order, dtype type = dtype::f32) {
    call_.place.push_back(nullptr);
    return add({name, shape, type, role::activation, order});
  }
  void compute(const char* name, op_attributes what, std::vector<tensor_id> in, std::vector<tensor_id> out,
               std::optional<may_alias> alias = std::nullopt) {
    call_.g.ops.push_back({name, what, std::move(in), std::move(out), true, alias});
  }
  const tensor& operator[](tensor_id t) const { return call_.g.tensors[t]; }
  const um::ooc::one_call& done() const {
    if (const auto wrong = defect_of(call_.g)) throw refused(wrong->c_str());
    return call_;
  }

 private:
  tensor_id add(tensor t) {
    call_.g.tensors.push_back(std::move(t));
    return static_cast<tensor_id>(call_.g.tensors.size() - 1);
  }
  um::ooc::one_call call_;
};

dtype index_type(const max_pool& how) {
  return how.window * how.window <= 256 ? dtype::u8 : dtype::u16;
}

// `build` checks arguments and gives the call; the device is looked for only after that.
template <class Build>
cudnnStatus_t run(oocHandle_t handle, Build&& build) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const auto failed = [&](cudnnStatus_t status, const std::exception& e) {
    handle->message = e.what();
    return status;
  };
  try {
    const um::ooc::one_call call = build();
    if (!handle->device) {
      try {
        handle->device = std::make_unique<um::ooc::calling>();
      } catch (const std::exception& e) {
        return failed(CUDNN_STATUS_NOT_INITIALIZED, e);
      }
    }
    handle->parts = handle->device->run(call, handle->budget);
    return CUDNN_STATUS_SUCCESS;
  } catch (const unsupported& e) {
    return failed(CUDNN_STATUS_NOT_SUPPORTED, e);
  } catch (const infeasible& e) {
    return failed(CUDNN_STATUS_ALLOC_FAILED, e);
  } catch (const out_of_memory& e) {
    return failed(CUDNN_STATUS_ALLOC_FAILED, e);
  } catch (const std::bad_alloc& e) {
    return failed(CUDNN_STATUS_ALLOC_FAILED, e);
  } catch (const refused& e) {
    return failed(CUDNN_STATUS_BAD_PARAM, e);
  } catch (const std::exception& e) {
    return failed(CUDNN_STATUS_EXECUTION_FAILED, e);
  }
}

}  // namespace

extern "C" {

cudnnStatus_t oocCreate(oocHandle_t* handle) {
  return create(handle);
}
cudnnStatus_t oocDestroy(oocHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t oocSetBudget(oocHandle_t handle, size_t bytes) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->budget = bytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t oocGetLastParts(oocHandle_t handle, size_t* parts) {
  if (handle == nullptr || parts == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *parts = handle->parts;
  return CUDNN_STATUS_SUCCESS;
}
const char* oocGetLastErrorMessage(oocHandle_t handle) {
  return handle == nullptr ? "the handle is null" : handle->message.c_str();
}

cudnnStatus_t oocCreateTensorDescriptor(oocTensorDescriptor_t* desc) {
  return create(desc);
}
cudnnStatus_t oocSetTensor4dDescriptor(oocTensorDescriptor_t desc, cudnnTensorFormat_t format,
                                       cudnnDataType_t dataType, int n, int c, int h, int w) {
  return set(desc, format, dataType, {n, c, h, w});
}
cudnnStatus_t oocDestroyTensorDescriptor(oocTensorDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t oocCreateFilterDescriptor(oocFilterDescriptor_t* desc) {
  return create(desc);
}
cudnnStatus_t oocSetFilter4dDescriptor(oocFilterDescriptor_t desc, cudnnDataType_t dataType,
                                       cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return set(desc, format, dataType, {k, c, h, w});
}
cudnnStatus_t oocDestroyFilterDescriptor(oocFilterDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t oocCreateConvolutionDescriptor(oocConvolutionDescriptor_t* desc) {
  return create(desc);
}
cudnnStatus_t oocSetConvolution2dDescriptor(oocConvolutionDescriptor_t desc, int pad_h, int pad_w, int u,
                                            int v, int dilation_h, int dilation_w,
                                            cudnnConvolutionMode_t mode, cudnnDataType_t computeType) {
  if (desc == nullptr || pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h < 1 || dilation_w < 1)
    return CUDNN_STATUS_BAD_PARAM;
  if (dilation_h != 1 || dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION ||
      computeType != CUDNN_DATA_FLOAT)
    return CUDNN_STATUS_NOT_SUPPORTED;
  desc->how = {u, v, pad_h, pad_w, false};
  desc->set = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t oocDestroyConvolutionDescriptor(oocConvolutionDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t oocCreateActivationDescriptor(oocActivationDescriptor_t* desc) {
  return create(desc);
}
cudnnStatus_t oocSetActivationDescriptor(oocActivationDescriptor_t desc, cudnnActivationMode_t mode,
                                         cudnnNanPropagation_t, double) {
  if (desc == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_ACTIVATION_RELU) return CUDNN_STATUS_NOT_SUPPORTED;
  desc->set = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t oocDestroyActivationDescriptor(oocActivationDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t oocCreatePoolingDescriptor(oocPoolingDescriptor_t* desc) {
  return create(desc);
}
cudnnStatus_t oocSetPooling2dDescriptor(oocPoolingDescriptor_t desc, cudnnPoolingMode_t mode,
                                        cudnnNanPropagation_t, int windowHeight, int windowWidth,
                                        int verticalPadding, int horizontalPadding, int verticalStride,
                                        int horizontalStride) {
  if (desc == nullptr || windowHeight < 1 || windowWidth < 1 || verticalPadding < 0 ||
      horizontalPadding < 0 || verticalStride < 1 || horizontalStride < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const bool square = windowHeight == windowWidth && verticalPadding == horizontalPadding &&
                      verticalStride == horizontalStride;
  if (!square || (mode != CUDNN_POOLING_MAX && mode != CUDNN_POOLING_MAX_DETERMINISTIC))
    return CUDNN_STATUS_NOT_SUPPORTED;
  desc->how = {windowHeight, verticalStride, verticalPadding, false};
  desc->set = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t oocDestroyPoolingDescriptor(oocPoolingDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t oocConvolutionForward(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t xDesc,
                                    const void* x, oocFilterDescriptor_t wDesc, const void* w,
                                    oocConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t, void*,
                                    size_t, const void* beta, oocTensorDescriptor_t yDesc, void* y) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    call_builder c(kind::forward);
    const tensor_id in = c.operand("x", xDesc, x, role::input),
                    filter = c.operand("w", wDesc, w, role::parameter),
                    out = c.operand("y", yDesc, y, role::output);
    c.compute("convolution", given(convDesc).how, {in, filter}, {out});
    return c.done();
  });
}

cudnnStatus_t oocConvolutionBackwardData(oocHandle_t handle, const void* alpha, oocFilterDescriptor_t wDesc,
                                         const void* w, oocTensorDescriptor_t dyDesc, const void* dy,
                                         oocConvolutionDescriptor_t convDesc, cudnnConvolutionBwdDataAlgo_t,
                                         void*, size_t, const void* beta, oocTensorDescriptor_t dxDesc,
                                         void* dx) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    call_builder c(kind::backward);
    const tensor_id filter = c.operand("w", wDesc, w, role::parameter),
                    in = c.operand("dy", dyDesc, dy, role::input),
                    out = c.operand("dx", dxDesc, dx, role::output);
    c.compute("convolution_backward_data", convolution_backward_data{given(convDesc).how}, {filter, in},
              {out});
    return c.done();
  });
}

cudnnStatus_t oocConvolutionBackwardFilter(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t xDesc,
                                           const void* x, oocTensorDescriptor_t dyDesc, const void* dy,
                                           oocConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdFilterAlgo_t, void*, size_t, const void* beta,
                                           oocFilterDescriptor_t dwDesc, void* dw) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    call_builder c(kind::backward);
    const tensor_id in = c.operand("x", xDesc, x, role::input),
                    dout = c.operand("dy", dyDesc, dy, role::input),
                    out = c.operand("dw", dwDesc, dw, role::parameter_gradient);
    c.compute("convolution_backward_filter", convolution_backward_filter{given(convDesc).how}, {in, dout},
              {out});
    return c.done();
  });
}

cudnnStatus_t oocConvolutionBackwardBias(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t dyDesc,
                                         const void* dy, const void* beta, oocTensorDescriptor_t dbDesc,
                                         void* db) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    call_builder c(kind::other);
    const tensor_id in = c.operand("dy", dyDesc, dy, role::input),
                    out = c.operand("db", dbDesc, db, role::parameter_gradient);
    c.compute("bias_backward", bias_backward{}, {in}, {out});
    return c.done();
  });
}

cudnnStatus_t oocAddTensor(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t bDesc, const void* b,
                           const void* beta, oocTensorDescriptor_t yDesc, void* y) {
  std::vector<float> ones, zeros;
  return run(handle, [&] {
    need_factors(alpha, beta, 1);
    const auto channels = static_cast<std::size_t>(given(yDesc).shape.c);
    ones.assign(channels, 1);
    zeros.assign(channels, 0);
    oocTensorStruct vector;
    vector.shape = {1, given(yDesc).shape.c, 1, 1};
    vector.set = true;
    call_builder c(kind::other);
    // y = 1 * (y - 0) * 1 + b
    const tensor_id in = c.operand("y", yDesc, y, role::input),
                    scale = c.operand("scale", &vector, ones.data(), role::parameter),
                    shift = c.operand("b", bDesc, b, role::parameter),
                    mean = c.operand("mean", &vector, zeros.data(), role::parameter),
                    inverse = c.operand("inverse_deviation", &vector, ones.data(), role::parameter),
                    out = c.operand("sum", yDesc, y, role::output);
    c.compute("add_tensor", normalize{}, {in, scale, shift, mean, inverse}, {out});
    return c.done();
  });
}

cudnnStatus_t oocActivationForward(oocHandle_t handle, oocActivationDescriptor_t activationDesc,
                                   const void* alpha, oocTensorDescriptor_t xDesc, const void* x,
                                   const void* beta, oocTensorDescriptor_t yDesc, void* y) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    given(activationDesc);
    call_builder c(kind::other);
    const tensor_id in = c.operand("x", xDesc, x, role::input), out = c.operand("y", yDesc, y, role::output);
    c.compute("relu", relu{}, {in}, {out});
    return c.done();
  });
}

cudnnStatus_t oocActivationBackward(oocHandle_t handle, oocActivationDescriptor_t activationDesc,
                                    const void* alpha, oocTensorDescriptor_t yDesc, const void* y,
                                    oocTensorDescriptor_t dyDesc, const void* dy, oocTensorDescriptor_t,
                                    const void*, const void* beta, oocTensorDescriptor_t dxDesc, void* dx) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    given(activationDesc);
    call_builder c(kind::other);
    const tensor_id value = c.operand("y", yDesc, y, role::input),
                    in = c.operand("dy", dyDesc, dy, role::input),
                    out = c.operand("dx", dxDesc, dx, role::output);
    c.compute("relu_backward", relu_backward{}, {value, in}, {out});
    return c.done();
  });
}

cudnnStatus_t oocPoolingForward(oocHandle_t handle, oocPoolingDescriptor_t poolingDesc, const void* alpha,
                                oocTensorDescriptor_t xDesc, const void* x, const void* beta,
                                oocTensorDescriptor_t yDesc, void* y) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    const max_pool& how = given(poolingDesc).how;
    call_builder c(kind::other);
    const tensor_id in = c.operand("x", xDesc, x, role::input), out = c.operand("y", yDesc, y, role::output),
                    index = c.between("index", c[out].shape, c[out].order, index_type(how));
    c.compute("max_pool", how, {in}, {out, index});
    return c.done();
  });
}

cudnnStatus_t oocPoolingBackward(oocHandle_t handle, oocPoolingDescriptor_t poolingDesc, const void* alpha,
                                 oocTensorDescriptor_t, const void*, oocTensorDescriptor_t dyDesc,
                                 const void* dy, oocTensorDescriptor_t xDesc, const void* x, const void* beta,
                                 oocTensorDescriptor_t dxDesc, void* dx) {
  return run(handle, [&] {
    need_factors(alpha, beta);
    const max_pool& how = given(poolingDesc).how;
    call_builder c(kind::other);
    const tensor_id in = c.operand("x", xDesc, x, role::input),
                    dout = c.operand("dy", dyDesc, dy, role::input),
                    out = c.operand("dx", dxDesc, dx, role::output),
                    again = c.between("y", c[dout].shape, c[dout].order),
                    index = c.between("index", c[dout].shape, c[dout].order, index_type(how));
    c.compute("max_pool", how, {in}, {again, index});
    c.compute("max_pool_backward", max_pool_backward{how}, {dout, index}, {out});
    return c.done();
  });
}

cudnnStatus_t oocConvolutionBiasActivationForward(
    oocHandle_t handle, const void* alpha1, oocTensorDescriptor_t xDesc, const void* x,
    oocFilterDescriptor_t wDesc, const void* w, oocConvolutionDescriptor_t convDesc,
    cudnnConvolutionFwdAlgo_t, void*, size_t, const void* alpha2, oocTensorDescriptor_t, const void*,
    oocTensorDescriptor_t biasDesc, const void* bias, oocActivationDescriptor_t activationDesc,
    oocTensorDescriptor_t yDesc, void* y) {
  return run(handle, [&] {
    need_factors(alpha1, alpha2);
    given(activationDesc);
    call_builder c(kind::forward);
    const tensor_id in = c.operand("x", xDesc, x, role::input),
                    filter = c.operand("w", wDesc, w, role::parameter),
                    b = c.operand("b", biasDesc, bias, role::parameter),
                    out = c.operand("y", yDesc, y, role::output),
                    before = c.between("before", c[out].shape, c[out].order);
    c.compute("convolution", given(convDesc).how, {in, filter, b}, {before});
    c.compute("relu", relu{}, {before}, {out}, may_alias{0, 0});
    return c.done();
  });
}

cudnnStatus_t oocConvolutionBiasActivationPoolingForward(
    oocHandle_t handle, oocTensorDescriptor_t xDesc, const void* x, oocFilterDescriptor_t wDesc,
    const void* w, oocConvolutionDescriptor_t convDesc, oocTensorDescriptor_t biasDesc, const void* bias,
    oocActivationDescriptor_t activationDesc, oocTensorDescriptor_t yDesc, void* y,
    oocPoolingDescriptor_t poolingDesc, oocTensorDescriptor_t pDesc, void* p) {
  return run(handle, [&] {
    given(activationDesc);
    const max_pool& how = given(poolingDesc).how;
    call_builder c(kind::forward);
    const tensor_id in = c.operand("x", xDesc, x, role::input),
                    filter = c.operand("w", wDesc, w, role::parameter),
                    b = c.operand("b", biasDesc, bias, role::parameter),
                    out = c.operand("y", yDesc, y, role::output),
                    pooled = c.operand("p", pDesc, p, role::output),
                    before = c.between("before", c[out].shape, c[out].order),
                    index = c.between("index", c[pooled].shape, c[pooled].order, index_type(how));
    c.compute("convolution", given(convDesc).how, {in, filter, b}, {before});
    c.compute("relu", relu{}, {before}, {out}, may_alias{0, 0});
    c.compute("max_pool", how, {out}, {pooled, index});
    return c.done();
  });
}

cudnnStatus_t oocConvolutionBiasActivationBackward(
    oocHandle_t handle, oocTensorDescriptor_t xDesc, const void* x, oocFilterDescriptor_t wDesc,
    const void* w, oocConvolutionDescriptor_t convDesc, oocActivationDescriptor_t activationDesc,
    oocTensorDescriptor_t yDesc, const void* y, oocTensorDescriptor_t dyDesc, const void* dy,
    oocFilterDescriptor_t dwDesc, void* dw, oocTensorDescriptor_t dbDesc, void* db,
    oocTensorDescriptor_t dxDesc, void* dx) {
  return run(handle, [&] {
    const convolution& how = given(convDesc).how;
    call_builder c(kind::backward);
    const tensor_id in = c.operand("x", xDesc, x, role::input),
                    filter = c.operand("w", wDesc, w, role::parameter),
                    filter_gradient = c.operand("dw", dwDesc, dw, role::parameter_gradient);
    tensor_id gradient = c.operand("dy", dyDesc, dy, role::input);
    if (activationDesc != nullptr) {
      given(activationDesc);
      const tensor_id value = c.operand("y", yDesc, y, role::input),
                      before = c.between("before", c[gradient].shape, c[gradient].order);
      c.compute("relu_backward", relu_backward{}, {value, gradient}, {before}, may_alias{1, 0});
      gradient = before;
    }
    c.compute("convolution_backward_filter", convolution_backward_filter{how}, {in, gradient},
              {filter_gradient});
    if (db != nullptr)
      c.compute("bias_backward", bias_backward{}, {gradient},
                {c.operand("db", dbDesc, db, role::parameter_gradient)});
    if (dx != nullptr)
      c.compute("convolution_backward_data", convolution_backward_data{how}, {filter, gradient},
                {c.operand("dx", dxDesc, dx, role::output)});
    return c.done();
  });
}

}  // extern "C"
