#include <cmath>

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"
#include "um_allocators/arena.hpp"

namespace um::kernels {
namespace {

struct shape_and_strides {
  dims shape, stride;
};

struct tensor_form {
  shape_and_strides x, w, y;
  int stride_h, stride_w, pad_h, pad_w;
  bool relu;
  std::int64_t filters_of_group;  // a group also has w.c channels
};

shape_and_strides tensor_strides(const dims& shape, const sampled_convolution& in) {
  return {shape, strides_of({{}, shape, dtype::f32, role::activation, in.order})};
}

tensor_form form_of(const sampled_convolution& of) {
  return {tensor_strides(of.x, of), tensor_strides(of.w, of), tensor_strides(of.y, of),
          of.attributes.stride_h,   of.attributes.stride_w,   of.attributes.pad_h,
          of.attributes.pad_w,      of.attributes.relu,       of.w.n / of.attributes.groups};
}

const dims& result_shape(const sampled_convolution& of) {
  return of.result_operand == 0 ? of.x : of.result_operand == 1 ? of.w : of.y;
}

// The number of elements that are computed as samples: fewer of a filter gradient, each of whose elements is
// a sum over the batch.
int sample_count(const sampled_convolution& of) {
  const int max_samples = of.result_operand == 1 ? 512 : 4096;
  return static_cast<int>(std::min<std::int64_t>(element_count(result_shape(of)), max_samples));
}

// Returns the logical index (n, c, h, w) of a sample. Few elements are taken in turn, many are scattered.
__device__ std::int64_t sample_index(int sample, int samples, std::int64_t count) {
  if (count <= samples) return sample;
  const auto hash = static_cast<std::uint64_t>(sample + 1) * 0x9e3779b97f4a7c15U;
  return static_cast<std::int64_t>(__umul64hi(hash, static_cast<std::uint64_t>(count)));
}

__device__ dims position_of(std::int64_t index, const dims& shape) {
  dims at;
  at.w = index % shape.w;
  index /= shape.w;
  at.h = index % shape.h;
  index /= shape.h;
  at.c = index % shape.c;
  at.n = index / shape.c;
  return at;
}

__device__ std::int64_t offset(const dims& stride, std::int64_t n, std::int64_t c, std::int64_t h,
                               std::int64_t w) {
  return n * stride.n + c * stride.c + h * stride.h + w * stride.w;
}

template <class T>
__device__ double forward_term(const tensor_form& f, const T* x, const T* w, const dims& at, std::int64_t i) {
  const dims tap = position_of(i, {1, f.w.shape.c, f.w.shape.h, f.w.shape.w});
  const std::int64_t h = at.h * f.stride_h + tap.h - f.pad_h, v = at.w * f.stride_w + tap.w - f.pad_w;
  if (h < 0 || h >= f.x.shape.h || v < 0 || v >= f.x.shape.w) return 0;
  const std::int64_t channel = at.c / f.filters_of_group * f.w.shape.c + tap.c;
  return static_cast<double>(static_cast<float>(x[offset(f.x.stride, at.n, channel, h, v)])) *
         static_cast<float>(w[offset(f.w.stride, at.c, tap.c, tap.h, tap.w)]);
}

template <class T>
__device__ double data_term(const tensor_form& f, const T* w, const T* y, const dims& at, std::int64_t i) {
  const dims tap = position_of(i, {1, f.filters_of_group, f.w.shape.h, f.w.shape.w});
  const std::int64_t group = at.c / f.w.shape.c, filter = group * f.filters_of_group + tap.c;
  const std::int64_t h = at.h + f.pad_h - tap.h, v = at.w + f.pad_w - tap.w;
  if (h < 0 || v < 0 || h % f.stride_h != 0 || v % f.stride_w != 0) return 0;
  if (h / f.stride_h >= f.y.shape.h || v / f.stride_w >= f.y.shape.w) return 0;
  return static_cast<double>(
             static_cast<float>(y[offset(f.y.stride, at.n, filter, h / f.stride_h, v / f.stride_w)])) *
         static_cast<float>(w[offset(f.w.stride, filter, at.c - group * f.w.shape.c, tap.h, tap.w)]);
}

template <class T>
__device__ double filter_term(const tensor_form& f, const T* x, const T* y, const dims& at, std::int64_t i) {
  const dims pixel = position_of(i, {f.y.shape.n, 1, f.y.shape.h, f.y.shape.w});
  const std::int64_t h = pixel.h * f.stride_h + at.h - f.pad_h, v = pixel.w * f.stride_w + at.w - f.pad_w;
  if (h < 0 || h >= f.x.shape.h || v < 0 || v >= f.x.shape.w) return 0;
  const std::int64_t channel = at.n / f.filters_of_group * f.w.shape.c + at.c;
  return static_cast<double>(static_cast<float>(x[offset(f.x.stride, pixel.n, channel, h, v)])) *
         static_cast<float>(y[offset(f.y.stride, pixel.n, at.n, pixel.h, pixel.w)]);
}

// A block computes one sample.
template <int Result, class T>
__global__ void __launch_bounds__(block_threads)
    compute_samples(tensor_form f, const T* x, const T* w, const T* y, const float* b, double* out) {
  const dims& shape = Result == 0 ? f.x.shape : Result == 1 ? f.w.shape : f.y.shape;
  const std::int64_t count = shape.n * shape.c * shape.h * shape.w;
  const dims at =
      position_of(sample_index(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), count), shape);
  const std::int64_t taps = f.w.shape.h * f.w.shape.w;
  const std::int64_t terms = Result == 0   ? f.filters_of_group * taps
                             : Result == 1 ? f.y.shape.n * f.y.shape.h * f.y.shape.w
                                           : f.w.shape.c * taps;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < terms; i += block_threads) {
    if constexpr (Result == 0) sum += data_term(f, w, y, at, i);
    if constexpr (Result == 1) sum += filter_term(f, x, y, at, i);
    if constexpr (Result == 2) sum += forward_term(f, x, w, at, i);
  }
  __shared__ double of_thread[block_threads];
  of_thread[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (double part : of_thread) total += part;
  if (Result == 2 && b != nullptr) total += b[at.c];
  out[blockIdx.x] = Result == 2 && f.relu && total < 0 ? 0 : total;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    gather_samples(const T* from, shape_and_strides laid, int samples, double* out) {
  const int sample = thread_index<int>();
  if (sample >= samples) return;
  const dims& shape = laid.shape;
  const dims at = position_of(sample_index(sample, samples, shape.n * shape.c * shape.h * shape.w), shape);
  out[sample] = static_cast<float>(from[offset(laid.stride, at.n, at.c, at.h, at.w)]);
}

// Copies the values that `launch` writes to device memory.
template <class Launch>
std::vector<double> run_and_fetch(launch_site where, int count, Launch launch) {
  std::vector<double> out(static_cast<std::size_t>(count));
  const arena memory = device_arena(out.size() * sizeof(double));
  auto* const data = reinterpret_cast<double*>(memory.data());
  launch(data);
  check(cudaGetLastError());
  check(cudaMemcpyAsync(out.data(), data, memory.bytes(), cudaMemcpyDeviceToHost, where.stream));
  check(cudaStreamSynchronize(where.stream));
  return out;
}

template <class T>
void launch_compute_samples(launch_site where, const sampled_convolution& of, const void* x, const void* w,
                            const void* y, const float* b, double* out) {
  const auto *const xs = static_cast<const T*>(x), *const ws = static_cast<const T*>(w),
                    *const ys = static_cast<const T*>(y);
  const auto kernel = of.result_operand == 0   ? &compute_samples<0, T>
                      : of.result_operand == 1 ? &compute_samples<1, T>
                                               : &compute_samples<2, T>;
  launch(where, kernel, static_cast<unsigned>(sample_count(of)), block_threads, form_of(of), xs, ws, ys, b,
         out);
}

}  // namespace

std::vector<double> sampled_results(launch_site where, const sampled_convolution& of, const void* x,
                                    const void* w, const void* y, const float* b) {
  return run_and_fetch(where, sample_count(of), [&](double* out) {
    with_type(of.operands,
              [&](auto type) { launch_compute_samples<decltype(type)>(where, of, x, w, y, b, out); });
  });
}

double sampled_relative_error(launch_site where, const sampled_convolution& of, const void* result,
                              const std::vector<double>& expected) {
  const int samples = sample_count(of);
  const std::vector<double> out = run_and_fetch(where, samples, [&](double* to) {
    with_type(of.result, [&](auto type) {
      using T = decltype(type);
      launch(where, &gather_samples<T>, static_cast<unsigned>(divide_up(samples, block_threads)),
             block_threads, static_cast<const T*>(result), tensor_strides(result_shape(of), of), samples, to);
    });
  });
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    difference += (out[i] - expected[i]) * (out[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);  // avoids 0 / 0 if all are zeros
}

}  // namespace um::kernels
