// One convolution whose operands are three times what it may use of the device, by umbench_ooc.h; its first
// image against cuDNN's, called the same way. Exit code 0: right, 1: wrong or failed, 77: no GPU.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "ooc/umbench_ooc.h"

constexpr int n = 32, c = 64, h = 224, w = 224;
constexpr std::size_t image = std::size_t{c} * h * w, filters = std::size_t{c} * c * 9;
constexpr std::size_t budget = std::size_t{256} << 20;  // operands: 822 MB
constexpr float one = 1, zero = 0;

static cudnnStatus_t all_images(const float* x, const float* filter, float* y) {
  oocHandle_t on = nullptr;
  oocTensorDescriptor_t of = nullptr;
  oocFilterDescriptor_t by = nullptr;
  oocConvolutionDescriptor_t conv = nullptr;
  oocCreate(&on), oocSetBudget(on, budget);
  oocCreateTensorDescriptor(&of), oocCreateFilterDescriptor(&by), oocCreateConvolutionDescriptor(&conv);
  oocSetTensor4dDescriptor(of, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w);
  oocSetFilter4dDescriptor(by, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, c, c, 3, 3);
  oocSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  const cudnnStatus_t status =
      oocConvolutionForward(on, &one, of, x, by, filter, conv, {}, nullptr, 0, &zero, of, y);
  std::size_t parts = 0;
  oocGetLastParts(on, &parts);
  std::printf("%zu parts within %zu MiB; %s\n", parts, budget >> 20, oocGetLastErrorMessage(on));
  return status;  // the process ends: what is created here is left to it
}

static cudnnStatus_t first_image(const float* x, const float* filter, float* y) {
  cudnnHandle_t on = nullptr;
  cudnnTensorDescriptor_t of = nullptr;
  cudnnFilterDescriptor_t by = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  cudnnCreate(&on);
  cudnnCreateTensorDescriptor(&of), cudnnCreateFilterDescriptor(&by), cudnnCreateConvolutionDescriptor(&conv);
  cudnnSetTensor4dDescriptor(of, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, c, h, w);
  cudnnSetFilter4dDescriptor(by, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, c, c, 3, 3);
  cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  cudnnSetConvolutionMathType(conv, CUDNN_FMA_MATH);
  return cudnnConvolutionForward(on, &one, of, x, by, filter, conv, {}, nullptr, 0, &zero, of, y);
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return std::puts("no GPU here"), 77;
  std::vector<float> x(n * image), y(n * image);
  float *filter = nullptr, *x0 = nullptr,
        *y0 = nullptr;  // managed: cuDNN takes no others, the library takes any
  cudaMallocManaged(&filter, filters * sizeof(float));
  cudaMallocManaged(&x0, image * sizeof(float)), cudaMallocManaged(&y0, image * sizeof(float));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) / 97 - 0.5F;
  for (std::size_t i = 0; i < filters; ++i) filter[i] = static_cast<float>(i % 31) / 31 - 0.5F;
  for (std::size_t i = 0; i < image; ++i) x0[i] = x[i];
  if (all_images(x.data(), filter, y.data()) != CUDNN_STATUS_SUCCESS) return 1;
  if (first_image(x0, filter, y0) != CUDNN_STATUS_SUCCESS || cudaDeviceSynchronize() != cudaSuccess) return 1;
  float most = 0;
  for (std::size_t i = 0; i < image; ++i) most = std::fmax(most, std::fabs(y[i] - y0[i]));
  std::printf("the first image is within %.1e of cuDNN's\n", most);
  return most < 1e-3F ? 0 : 1;
}
