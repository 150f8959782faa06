#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {
namespace {

// A block computes a row: its maximum, its sum of exponentials, its own loss, and probabilities or, with
// `Gradient`, (probabilities - 1 at the label)
// batch. `out` may be logits: the thread that reads an element last writes it, and the label's is read before
// the first is written.
template <bool Gradient, class T>
__global__ void __launch_bounds__(block_threads)
    softmax_rows(const T* logits, const std::int32_t* labels, T* out, float* row_loss, std::int64_t classes,
                 float batch) {
  const std::int64_t row = blockIdx.x;
  const T* const in = logits + row * classes;
  float largest = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < classes; i += block_threads)
    largest = fmaxf(largest, value_at(in + i));
  largest = block_max(largest);
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < classes; i += block_threads) sum += expf(value_at(in + i) - largest);
  __shared__ float total;
  sum = block_sum(sum);
  const std::int32_t label = labels[row];
  if (threadIdx.x == 0) {
    total = sum;
    const bool valid =
        label >= 0 && label < classes;  // a bad label makes the loss NaN, and no access out of range
    row_loss[row] = valid ? logf(sum) - (value_at(in + label) - largest) : NAN;
  }
  __syncthreads();
  const float scale = 1.0F / total;
  for (std::int64_t i = threadIdx.x; i < classes; i += block_threads) {
    const float probability = expf(value_at(in + i) - largest) * scale;
    const float gradient = (probability - (i == label ? 1.0F : 0.0F)) / batch;
    put(out + row * classes + i, Gradient ? gradient : probability);
  }
}

__global__ void __launch_bounds__(block_threads)
    mean_loss(const float* row_loss, float* loss, std::int64_t rows, float batch, bool accumulate) {
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < rows; i += block_threads) sum += row_loss[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = (accumulate ? *loss : 0.0F) + sum / batch;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    softmax_backward(const T* probabilities, const std::int32_t* labels, T* dlogits, std::int64_t classes,
                     float batch) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * classes;
  const std::int32_t label = labels[blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < classes; i += block_threads) {
    const float probability = value_at(probabilities + first + i);
    put(dlogits + first + i, (probability - (i == label ? 1.0F : 0.0F)) / batch);
  }
}

template <bool Gradient>
void launch_rows(launch_site where, const void* logits, const std::int32_t* labels, float* loss, void* out,
                 const softmax_problem& problem, bool accumulate, float* workspace) {
  const auto batch = static_cast<float>(problem.batch);
  with_type(problem.type, [&](auto zero) {
    using T = decltype(zero);
    launch(where, &softmax_rows<Gradient, T>, static_cast<unsigned>(problem.rows), block_threads,
           static_cast<const T*>(logits), labels, static_cast<T*>(out), workspace, problem.classes, batch);
  });
  launch(where, &mean_loss, 1, block_threads, workspace, loss, problem.rows, batch, accumulate);
}

}  // namespace

std::size_t softmax_workspace(const softmax_problem& problem) {
  return static_cast<std::size_t>(problem.rows) * sizeof(float);
}

void softmax_cross_entropy(launch_site where, const void* logits, const std::int32_t* labels, float* loss,
                           void* probabilities, const softmax_problem& problem, bool accumulate,
                           float* workspace) {
  launch_rows<false>(where, logits, labels, loss, probabilities, problem, accumulate, workspace);
}

void softmax_cross_entropy_gradient(launch_site where, const void* logits, const std::int32_t* labels,
                                    float* loss, void* dlogits, const softmax_problem& problem,
                                    bool accumulate, float* workspace) {
  launch_rows<true>(where, logits, labels, loss, dlogits, problem, accumulate, workspace);
}

void softmax_cross_entropy_backward(launch_site where, const void* probabilities, const std::int32_t* labels,
                                    void* dlogits, const softmax_problem& problem) {
  with_type(problem.type, [&](auto zero) {
    using T = decltype(zero);
    launch(where, &softmax_backward<T>, static_cast<unsigned>(problem.rows), block_threads,
           static_cast<const T*>(probabilities), labels, static_cast<T*>(dlogits), problem.classes,
           static_cast<float>(problem.batch));
  });
}

}  // namespace um::kernels
