#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {
namespace {

constexpr int step_vector = 4, elements_of_block = 4096;

// The tensors of one launch, and the first block of each.
struct step_list {
  stepped_tensor tensors[max_stepped_tensors];
  unsigned first_block[max_stepped_tensors];
  int count = 0;
};

// The step divides m and v by these, so that they have no bias towards zero at the start: 1 - beta^steps,
// computed in double precision.
struct bias_correction {
  float first = 1, second = 1;
};

__device__ int tensor_of_block(const step_list& list, unsigned block) {
  int low = 0, high = list.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (list.first_block[middle] <= block ? low : high) = middle;
  }
  return low;
}

template <int Moments>
__device__ void step_element(float g, float& w, float& m, float& v, const optimizer_step& update,
                             const bias_correction& bias) {
  if constexpr (Moments == 0) {
    w = fmaf(-update.learning_rate, g, w);
  } else if constexpr (Moments == 1) {
    m = fmaf(update.beta1, m, g);
    w = fmaf(-update.learning_rate, m, w);
  } else {
    m = fmaf(update.beta1, m, (1.0F - update.beta1) * g);
    v = fmaf(update.beta2, v, (1.0F - update.beta2) * g * g);
    w *= 1.0F - update.learning_rate * update.decay;
    w = fmaf(-update.learning_rate, m / bias.first / (sqrtf(v / bias.second) + update.epsilon), w);
  }
}

template <int Moments, int N>
__device__ void step_elements(const stepped_tensor& t, std::int64_t i, const optimizer_step& update,
                              const bias_correction& bias) {
  float* const weights = t.master != nullptr ? t.master : static_cast<float*>(t.w);
  float g[N], w[N], m[N] = {}, v[N] = {};
  unpack<float, N>(load<N>(t.dw + i), g);
  unpack<float, N>(load<N>(weights + i), w);
  if constexpr (Moments > 0) unpack<float, N>(load<N>(t.m + i), m);
  if constexpr (Moments > 1) unpack<float, N>(load<N>(t.v + i), v);
#pragma unroll
  for (int j = 0; j < N; ++j) step_element<Moments>(g[j], w[j], m[j], v[j], update, bias);
  store<N>(weights + i, pack<float, N>(w));
  if (t.master != nullptr) store<N>(static_cast<bf16*>(t.w) + i, pack<bf16, N>(w));
  if constexpr (Moments > 0) store<N>(t.m + i, pack<float, N>(m));
  if constexpr (Moments > 1) store<N>(t.v + i, pack<float, N>(v));
}

template <int Moments>
__global__ void __launch_bounds__(block_threads)
    step_parameters(const __grid_constant__ step_list list, const optimizer_step update,
                    const std::int32_t* steps) {
  __shared__ int tensor;
  __shared__ bias_correction bias;
  if (threadIdx.x == 0) {
    tensor = tensor_of_block(list, blockIdx.x);
    if constexpr (Moments > 1) {
      const double step = *steps + 1;
      bias.first = static_cast<float>(1 - pow(static_cast<double>(update.beta1), step));
      bias.second = static_cast<float>(1 - pow(static_cast<double>(update.beta2), step));
    }
  }
  __syncthreads();
  const stepped_tensor& t = list.tensors[tensor];
  const std::int64_t begin = std::int64_t{blockIdx.x - list.first_block[tensor]} * elements_of_block;
  const std::int64_t end = min(begin + elements_of_block, t.count);
  const std::int64_t wide_end = t.is_aligned ? begin + (end - begin) / step_vector * step_vector : begin;
  for (std::int64_t i = begin + std::int64_t{threadIdx.x} * step_vector; i < wide_end;
       i += block_threads * step_vector) {
    step_elements<Moments, step_vector>(t, i, update, bias);
  }
  for (std::int64_t i = wide_end + threadIdx.x; i < end; i += block_threads) {
    step_elements<Moments, 1>(t, i, update, bias);
  }
}

__global__ void count_step(std::int32_t* steps) {
  *steps += 1;
}

void launch_list(launch_site where, const step_list& list, unsigned blocks, const optimizer_step& update,
                 const std::int32_t* steps) {
  if (update.moments == 0)
    return launch(where, step_parameters<0>, blocks, block_threads, list, update, steps);
  if (update.moments == 1)
    return launch(where, step_parameters<1>, blocks, block_threads, list, update, steps);
  launch(where, step_parameters<2>, blocks, block_threads, list, update, steps);
}

}  // namespace

void take_optimizer_step(launch_site where, std::span<const stepped_tensor> tensors,
                         const optimizer_step& update, std::int32_t* steps) {
  while (!tensors.empty()) {
    step_list list;
    unsigned blocks = 0;
    const std::size_t taken = std::min<std::size_t>(tensors.size(), max_stepped_tensors);
    for (const stepped_tensor& t : tensors.first(taken)) {
      stepped_tensor& to = list.tensors[list.count] = t;
      to.is_aligned = aligned_to(16, t.w, t.dw, t.m, t.v, t.master);
      list.first_block[list.count++] = blocks;
      blocks += static_cast<unsigned>(divide_up(t.count, elements_of_block));
    }
    launch_list(where, list, blocks, update, steps);
    tensors = tensors.subspan(taken);
  }
  if (update.moments > 1) launch(where, count_step, 1, 1, steps);
}

}  // namespace um::kernels
