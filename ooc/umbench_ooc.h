/* Convolutions, biases, activations and pools on operands of any size, in host or device memory: calls in the
 * manner of cuDNN's, after ooc_cuDNN (Ito, Matsumiya, Endo, IEEE BigData 2017). What does not fit is divided
 * along batch, rows and channels by planners/ooc_cudnn, and streamed through a part of the device's memory by
 * backends/cuda. A program that calls cuDNN's functions of these names changes `cudnn` to `ooc` in names and
 * types and drops nothing: algorithms and workspaces are taken and not looked at.
 *
 * Operands: f32, NCHW or NHWC, dense, 4 extents; filters KCRS, or KRSC in the same order as x. Pointers to
 * device or managed memory are used where they are, all others are host memory (pinned is faster). Operands
 * of a call do not overlap but where cuDNN allows it in place: activations and oocAddTensor. alpha is 1 and
 * beta 0 (for oocAddTensor both 1), of type float: others are CUDNN_STATUS_NOT_SUPPORTED. A call has ended
 * when it returns. A handle is used by one thread at a time.
 *
 * Errors: CUDNN_STATUS_BAD_PARAM (a null pointer, extents that do not belong together),
 * CUDNN_STATUS_NOT_SUPPORTED (dilation, groups, other types and modes), CUDNN_STATUS_ALLOC_FAILED (even the
 * smallest parts exceed the budget), CUDNN_STATUS_NOT_INITIALIZED (no device),
 * CUDNN_STATUS_EXECUTION_FAILED. oocGetLastErrorMessage() has the reason in words. */
#ifndef UMBENCH_OOC_H
#define UMBENCH_OOC_H

#include <cudnn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct oocContext* oocHandle_t;
typedef struct oocTensorStruct* oocTensorDescriptor_t;
typedef struct oocFilterStruct* oocFilterDescriptor_t;
typedef struct oocConvolutionStruct* oocConvolutionDescriptor_t;
typedef struct oocActivationStruct* oocActivationDescriptor_t;
typedef struct oocPoolingStruct* oocPoolingDescriptor_t;

/* The device current at the first call that computes is used; nothing is allocated on it before. */
cudnnStatus_t oocCreate(oocHandle_t* handle);
cudnnStatus_t oocDestroy(oocHandle_t handle);
/* Bytes of device memory that a call may use beside operands that lie there; 0, as at first: 90 % of what is
 * free when it begins. */
cudnnStatus_t oocSetBudget(oocHandle_t handle, size_t bytes);
/* Parts that the last call went in. */
cudnnStatus_t oocGetLastParts(oocHandle_t handle, size_t* parts);
/* Of the last call that failed; valid until the next one. */
const char* oocGetLastErrorMessage(oocHandle_t handle);

cudnnStatus_t oocCreateTensorDescriptor(oocTensorDescriptor_t* desc);
cudnnStatus_t oocSetTensor4dDescriptor(oocTensorDescriptor_t desc, cudnnTensorFormat_t format,
                                       cudnnDataType_t dataType, int n, int c, int h, int w);
cudnnStatus_t oocDestroyTensorDescriptor(oocTensorDescriptor_t desc);

cudnnStatus_t oocCreateFilterDescriptor(oocFilterDescriptor_t* desc);
cudnnStatus_t oocSetFilter4dDescriptor(oocFilterDescriptor_t desc, cudnnDataType_t dataType,
                                       cudnnTensorFormat_t format, int k, int c, int h, int w);
cudnnStatus_t oocDestroyFilterDescriptor(oocFilterDescriptor_t desc);

/* mode: CUDNN_CROSS_CORRELATION. */
cudnnStatus_t oocCreateConvolutionDescriptor(oocConvolutionDescriptor_t* desc);
cudnnStatus_t oocSetConvolution2dDescriptor(oocConvolutionDescriptor_t desc, int pad_h, int pad_w, int u,
                                            int v, int dilation_h, int dilation_w,
                                            cudnnConvolutionMode_t mode, cudnnDataType_t computeType);
cudnnStatus_t oocDestroyConvolutionDescriptor(oocConvolutionDescriptor_t desc);

/* mode: CUDNN_ACTIVATION_RELU. */
cudnnStatus_t oocCreateActivationDescriptor(oocActivationDescriptor_t* desc);
cudnnStatus_t oocSetActivationDescriptor(oocActivationDescriptor_t desc, cudnnActivationMode_t mode,
                                         cudnnNanPropagation_t reluNanOpt, double coef);
cudnnStatus_t oocDestroyActivationDescriptor(oocActivationDescriptor_t desc);

/* mode: CUDNN_POOLING_MAX; square windows. */
cudnnStatus_t oocCreatePoolingDescriptor(oocPoolingDescriptor_t* desc);
cudnnStatus_t oocSetPooling2dDescriptor(oocPoolingDescriptor_t desc, cudnnPoolingMode_t mode,
                                        cudnnNanPropagation_t maxpoolingNanOpt, int windowHeight,
                                        int windowWidth, int verticalPadding, int horizontalPadding,
                                        int verticalStride, int horizontalStride);
cudnnStatus_t oocDestroyPoolingDescriptor(oocPoolingDescriptor_t desc);

cudnnStatus_t oocConvolutionForward(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t xDesc,
                                    const void* x, oocFilterDescriptor_t wDesc, const void* w,
                                    oocConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
                                    void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
                                    oocTensorDescriptor_t yDesc, void* y);
cudnnStatus_t oocConvolutionBackwardData(oocHandle_t handle, const void* alpha, oocFilterDescriptor_t wDesc,
                                         const void* w, oocTensorDescriptor_t dyDesc, const void* dy,
                                         oocConvolutionDescriptor_t convDesc,
                                         cudnnConvolutionBwdDataAlgo_t algo, void* workSpace,
                                         size_t workSpaceSizeInBytes, const void* beta,
                                         oocTensorDescriptor_t dxDesc, void* dx);
cudnnStatus_t oocConvolutionBackwardFilter(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t xDesc,
                                           const void* x, oocTensorDescriptor_t dyDesc, const void* dy,
                                           oocConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdFilterAlgo_t algo, void* workSpace,
                                           size_t workSpaceSizeInBytes, const void* beta,
                                           oocFilterDescriptor_t dwDesc, void* dw);
cudnnStatus_t oocConvolutionBackwardBias(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t dyDesc,
                                         const void* dy, const void* beta, oocTensorDescriptor_t dbDesc,
                                         void* db);
/* y += b, b of extents 1, c, 1, 1. */
cudnnStatus_t oocAddTensor(oocHandle_t handle, const void* alpha, oocTensorDescriptor_t bDesc, const void* b,
                           const void* beta, oocTensorDescriptor_t yDesc, void* y);
cudnnStatus_t oocActivationForward(oocHandle_t handle, oocActivationDescriptor_t activationDesc,
                                   const void* alpha, oocTensorDescriptor_t xDesc, const void* x,
                                   const void* beta, oocTensorDescriptor_t yDesc, void* y);
/* x is not looked at. */
cudnnStatus_t oocActivationBackward(oocHandle_t handle, oocActivationDescriptor_t activationDesc,
                                    const void* alpha, oocTensorDescriptor_t yDesc, const void* y,
                                    oocTensorDescriptor_t dyDesc, const void* dy, oocTensorDescriptor_t xDesc,
                                    const void* x, const void* beta, oocTensorDescriptor_t dxDesc, void* dx);
cudnnStatus_t oocPoolingForward(oocHandle_t handle, oocPoolingDescriptor_t poolingDesc, const void* alpha,
                                oocTensorDescriptor_t xDesc, const void* x, const void* beta,
                                oocTensorDescriptor_t yDesc, void* y);
/* y is not looked at: the first of equal maxima takes the gradient. */
cudnnStatus_t oocPoolingBackward(oocHandle_t handle, oocPoolingDescriptor_t poolingDesc, const void* alpha,
                                 oocTensorDescriptor_t yDesc, const void* y, oocTensorDescriptor_t dyDesc,
                                 const void* dy, oocTensorDescriptor_t xDesc, const void* x, const void* beta,
                                 oocTensorDescriptor_t dxDesc, void* dx);

/* Fused calls: one division for all of them, nothing in between is stored. */

/* As cudnnConvolutionBiasActivationForward; alpha2 is 0, z is not looked at. */
cudnnStatus_t oocConvolutionBiasActivationForward(
    oocHandle_t handle, const void* alpha1, oocTensorDescriptor_t xDesc, const void* x,
    oocFilterDescriptor_t wDesc, const void* w, oocConvolutionDescriptor_t convDesc,
    cudnnConvolutionFwdAlgo_t algo, void* workSpace, size_t workSpaceSizeInBytes, const void* alpha2,
    oocTensorDescriptor_t zDesc, const void* z, oocTensorDescriptor_t biasDesc, const void* bias,
    oocActivationDescriptor_t activationDesc, oocTensorDescriptor_t yDesc, void* y);
/* y: behind the activation, p: behind the pool. */
cudnnStatus_t oocConvolutionBiasActivationPoolingForward(
    oocHandle_t handle, oocTensorDescriptor_t xDesc, const void* x, oocFilterDescriptor_t wDesc,
    const void* w, oocConvolutionDescriptor_t convDesc, oocTensorDescriptor_t biasDesc, const void* bias,
    oocActivationDescriptor_t activationDesc, oocTensorDescriptor_t yDesc, void* y,
    oocPoolingDescriptor_t poolingDesc, oocTensorDescriptor_t pDesc, void* p);
/* Gradients of filter, bias and data at once. activationDesc may be null; else dy is the gradient behind the
 * activation, and y its value. db and dx may be null: not wanted. */
cudnnStatus_t oocConvolutionBiasActivationBackward(
    oocHandle_t handle, oocTensorDescriptor_t xDesc, const void* x, oocFilterDescriptor_t wDesc,
    const void* w, oocConvolutionDescriptor_t convDesc, oocActivationDescriptor_t activationDesc,
    oocTensorDescriptor_t yDesc, const void* y, oocTensorDescriptor_t dyDesc, const void* dy,
    oocFilterDescriptor_t dwDesc, void* dw, oocTensorDescriptor_t dbDesc, void* db,
    oocTensorDescriptor_t dxDesc, void* dx);

#ifdef __cplusplus
}
#endif

#endif
