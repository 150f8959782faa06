#include "backends/cuda/kernels/launch.cuh"

namespace um::kernels {
namespace {

// A block per row: maximum, sum of exponentials, probabilities, and the row's own loss.
__global__ void __launch_bounds__(block_threads)
    softmax_rows(const float* logits, const std::int32_t* labels, float* probabilities, float* row_loss,
                 std::int64_t classes) {
  const std::int64_t row = blockIdx.x;
  const float* in = logits + row * classes;
  float* out = probabilities + row * classes;
  float most = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < classes; i += block_threads) most = fmaxf(most, in[i]);
  most = block_max(most);
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < classes; i += block_threads) sum += expf(in[i] - most);
  __shared__ float total;
  sum = block_sum(sum);
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  const float scale = 1.0F / total;
  for (std::int64_t i = threadIdx.x; i < classes; i += block_threads) out[i] = expf(in[i] - most) * scale;
  if (threadIdx.x == 0) {
    const std::int32_t label = labels[row];
    const bool valid = label >= 0 && label < classes;  // a bad label shows in the loss, not as a fault
    row_loss[row] = valid ? logf(total) - (in[label] - most) : NAN;
  }
}

__global__ void __launch_bounds__(block_threads)
    mean_loss(const float* row_loss, float* loss, std::int64_t rows, float batch, bool accumulate) {
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < rows; i += block_threads) sum += row_loss[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = (accumulate ? *loss : 0.0F) + sum / batch;
}

__global__ void __launch_bounds__(block_threads)
    softmax_backward(const float* probabilities, const std::int32_t* labels, float* dlogits,
                     std::int64_t count, std::int64_t classes, float batch) {
  for (auto i = thread_index<std::int64_t>(); i < count; i += grid_stride<std::int64_t>()) {
    const bool at_label = i % classes == labels[i / classes];
    dlogits[i] = (probabilities[i] - (at_label ? 1.0F : 0.0F)) / batch;
  }
}

}  // namespace

std::size_t softmax_workspace(const softmax_shape& shape) {
  return static_cast<std::size_t>(shape.rows) * sizeof(float);
}

void softmax_cross_entropy(launch_site where, const float* logits, const std::int32_t* labels, float* loss,
                           float* probabilities, const softmax_shape& shape, bool accumulate,
                           float* workspace) {
  softmax_rows<<<static_cast<unsigned>(shape.rows), block_threads, 0, where.stream>>>(
      logits, labels, probabilities, workspace, shape.classes);
  check(cudaGetLastError());
  mean_loss<<<1, block_threads, 0, where.stream>>>(workspace, loss, shape.rows,
                                                   static_cast<float>(shape.batch), accumulate);
  check(cudaGetLastError());
}

void softmax_cross_entropy_backward(launch_site where, const float* probabilities, const std::int32_t* labels,
                                    float* dlogits, const softmax_shape& shape) {
  const std::int64_t count = shape.rows * shape.classes;
  softmax_backward<<<grid_for(where, count), block_threads, 0, where.stream>>>(
      probabilities, labels, dlogits, count, shape.classes, static_cast<float>(shape.batch));
  check(cudaGetLastError());
}

}  // namespace um::kernels
