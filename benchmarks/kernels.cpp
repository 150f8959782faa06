// umbench's own kernels against the copy bandwidth of this GPU, at the sizes of VGG-16, AlexNet and
// ResNet-50: Google Benchmark, times by CUDA events, operands rotated so that no cache holds them.
//   um_kernel_benchmark --benchmark_filter=max_pool
// bytes_per_second counts what the passes of a kernel have to move; `share` is that over the
// bandwidth of a device-to-device copy (bytes read and written), measured at the start.
#include "backends/cuda/kernels.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/convolution_problem.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/check.hpp"
#include "um_allocators/handle.hpp"

namespace um {
namespace {

using kernels::launch_site;
using kernels::tensor_form;

struct device {
  cuda_stream on;
  launch_site where;
  double copy_bytes_per_s = 0;
};

double seconds_of(const device& gpu, const std::function<void()>& call) {
  const cuda_event begin = make_event(event_use::timing), end = make_event(event_use::timing);
  check(cudaEventRecord(begin.get(), gpu.where.stream));
  call();
  check(cudaEventRecord(end.get(), gpu.where.stream));
  check(cudaEventSynchronize(end.get()));
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin.get(), end.get()));
  return static_cast<double>(ms) / 1000;
}

double copy_bandwidth(const device& gpu) {
  constexpr byte_count bytes = GiB;
  const arena from = device_arena(bytes), to = device_arena(bytes);
  kernels::fill(gpu.where, from.data(), static_cast<std::int64_t>(bytes / 4), dtype::f32, 1);
  std::vector<double> seconds;
  for (int i = 0; i < 11; ++i) {
    seconds.push_back(seconds_of(gpu, [&] {
      check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, gpu.where.stream));
    }));
  }
  std::nth_element(seconds.begin(), seconds.begin() + 5, seconds.end());
  return 2.0 * static_cast<double>(bytes) / seconds[5];
}

device open_device() {
  int index = 0, multiprocessors = 0;
  check(cudaGetDevice(&index));
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index));
  device gpu{make_stream(), {}, 0};
  gpu.where = {gpu.on.get(), multiprocessors};
  gpu.copy_bytes_per_s = copy_bandwidth(gpu);
  return gpu;
}

// Operands in device memory, filled with pseudo-random values.
class operands {
 public:
  explicit operands(launch_site where) : where_(where) {}

  void* data(const dims& shape, dtype type) {
    const auto count = element_count(shape);
    all_.push_back(device_arena(static_cast<byte_count>(count) * element_bytes(type)));
    const auto seed = static_cast<std::uint32_t>(all_.size());
    if (is_floating(type)) kernels::fill(where_, all_.back().data(), count, type, seed);
    return all_.back().data();
  }
  float* vector(std::int64_t channels) { return static_cast<float*>(data({1, channels, 1, 1}, dtype::f32)); }
  float* workspace(byte_count bytes) {
    all_.push_back(device_arena(std::max<byte_count>(bytes, 4)));
    return reinterpret_cast<float*>(all_.back().data());
  }
  byte_count bytes() const {
    byte_count sum = 0;
    for (const arena& a : all_) sum += a.bytes();
    return sum;
  }

 private:
  launch_site where_;
  std::vector<arena> all_;
};

using graph_handle = handle<cudaGraph_t, &cudaGraphDestroy>;
using recording_handle = handle<cudaGraphExec_t, &cudaGraphExecDestroy>;

// Records all calls as one CUDA graph: single launches take longer than small kernels.
recording_handle recorded(const device& gpu, const std::vector<std::function<void()>>& calls) {
  check(cudaStreamBeginCapture(gpu.where.stream, cudaStreamCaptureModeThreadLocal));
  for (const auto& call : calls) call();
  cudaGraph_t raw = nullptr;
  check(cudaStreamEndCapture(gpu.where.stream, &raw));
  const graph_handle all(raw);
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, all.get(), 0));
  return recording_handle(ready);
}

// A kernel on a form: how many bytes it moves, and the call on operands of its own.
struct kernel_case {
  std::string name;
  tensor_form of;
  double bytes;
  std::function<std::function<void()>(launch_site, operands&)> prepare;
  double flops = 0;  // if arithmetic bounds it
};

void measure(benchmark::State& state, const device& gpu, const kernel_case& c) {
  constexpr byte_count cache = 256 * MiB;  // larger than any
  std::vector<std::unique_ptr<operands>> sets;
  std::vector<std::function<void()>> calls;
  byte_count held = 0;
  do {
    sets.push_back(std::make_unique<operands>(gpu.where));
    calls.push_back(c.prepare(gpu.where, *sets.back()));
    held += sets.back()->bytes();
  } while (held < cache && sets.size() < 32);
  const recording_handle all = recorded(gpu, calls);
  const auto replay = [&] { check(cudaGraphLaunch(all.get(), gpu.where.stream)); };
  replay();
  for ([[maybe_unused]] const auto tick : state) {
    state.SetIterationTime(seconds_of(gpu, replay) / static_cast<double>(calls.size()));
  }
  const double moved = c.bytes * static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(moved));
  state.counters["share"] = benchmark::Counter(moved / gpu.copy_bytes_per_s, benchmark::Counter::kIsRate);
  if (c.flops > 0) {
    state.counters["flops_per_second"] =
        benchmark::Counter(c.flops, benchmark::Counter::kIsIterationInvariantRate);
  }
}

double bytes_in(const tensor_form& of) {
  return static_cast<double>(element_count(of.shape)) * static_cast<double>(element_bytes(of.type));
}

// --- the kernels ---

kernel_case of_bias_relu(const tensor_form& of) {
  return {"bias_relu", of, 2 * bytes_in(of), [of](launch_site where, operands& on) {
            void* const y = on.data(of.shape, of.type);
            const float* const b = on.vector(of.shape.c);
            return [=] { kernels::bias_relu(where, y, b, true, of); };
          }};
}
kernel_case of_relu_bias_backward(const tensor_form& of) {
  return {"relu_bias_backward", of, 3 * bytes_in(of), [of](launch_site where, operands& on) {
            void *const y = on.data(of.shape, of.type), *const dy = on.data(of.shape, of.type);
            float* const db = on.vector(of.shape.c);
            float* const workspace = on.workspace(kernels::bias_backward_workspace(of));
            return [=] { kernels::relu_bias_backward(where, y, dy, dy, db, of, false, workspace); };
          }};
}
kernel_case of_bias_backward(const tensor_form& of) {
  return {"bias_backward", of, bytes_in(of), [of](launch_site where, operands& on) {
            void* const dy = on.data(of.shape, of.type);
            float* const db = on.vector(of.shape.c);
            float* const workspace = on.workspace(kernels::bias_backward_workspace(of));
            return [=] { kernels::bias_backward(where, dy, db, of, false, workspace); };
          }};
}
kernel_case of_add(const tensor_form& of) {
  return {"add", of, 3 * bytes_in(of), [of](launch_site where, operands& on) {
            void *const a = on.data(of.shape, of.type), *const b = on.data(of.shape, of.type);
            return [=] { kernels::add(where, a, b, a, element_count(of.shape), of.type); };
          }};
}
kernel_case of_cast(const tensor_form& of) {
  const dtype to = of.type == dtype::f32 ? dtype::bf16 : dtype::f32;
  return {"cast", of, bytes_in(of) + bytes_in({of.shape, to}), [of, to](launch_site where, operands& on) {
            void *const x = on.data(of.shape, of.type), *const y = on.data(of.shape, to);
            return [=] { kernels::cast(where, x, of.type, y, to, element_count(of.shape)); };
          }};
}
kernel_case of_sgd_update(const tensor_form& of) {
  return {"sgd_update", of, 3 * bytes_in(of), [of](launch_site where, operands& on) {
            auto* const w = static_cast<float*>(on.data(of.shape, dtype::f32));
            auto* const dw = static_cast<float*>(on.data(of.shape, dtype::f32));
            return [=] { kernels::sgd_update(where, w, dw, 1e-3F, element_count(of.shape)); };
          }};
}

kernels::pool_problem pooled(const tensor_form& of, max_pool how) {
  const auto output_extent = [&](std::int64_t extent) {
    return (extent + 2 * how.pad - how.window) / how.stride + 1;
  };
  how.relu = true;
  return {of.shape, {of.shape.n, of.shape.c, output_extent(of.shape.h), output_extent(of.shape.w)},
          how,      of.type,
          of.order, 1};
}
std::string suffix(const max_pool& how) {
  return "_" + std::to_string(how.window) + "s" + std::to_string(how.stride);
}
struct pool_data {
  void *x, *y, *index;
  float* b;
};
pool_data pool_data_of(launch_site where, operands& on, const kernels::pool_problem& p) {
  const pool_data d{on.data(p.x, p.type), on.data(p.y, p.type), on.data(p.y, dtype::u8), on.vector(p.x.c)};
  kernels::max_pool_forward(where, d.x, d.b, d.y, d.index, p);
  return d;
}
kernel_case of_max_pool(const tensor_form& of, const max_pool& how) {
  const auto p = pooled(of, how);
  const double bytes = bytes_in(of) + bytes_in({p.y, p.type}) + static_cast<double>(element_count(p.y));
  return {"max_pool" + suffix(how), of, bytes, [p](launch_site where, operands& on) {
            const pool_data d = pool_data_of(where, on, p);
            return [=] { kernels::max_pool_forward(where, d.x, d.b, d.y, d.index, p); };
          }};
}
// With mask and bias gradient.
kernel_case of_max_pool_backward(const tensor_form& of, const max_pool& how) {
  const auto p = pooled(of, how);
  const double bytes = bytes_in(of) + 2 * bytes_in({p.y, p.type}) + static_cast<double>(element_count(p.y));
  return {"max_pool_backward" + suffix(how), of, bytes, [p](launch_site where, operands& on) {
            const pool_data d = pool_data_of(where, on, p);
            void* const dy = on.data(p.y, p.type);
            float* const db = on.vector(p.x.c);
            float* const workspace = on.workspace(kernels::max_pool_backward_workspace(p));
            return [=] { kernels::max_pool_backward(where, dy, d.index, d.y, d.x, db, p, false, workspace); };
          }};
}

// Statistics read x once, normalisation once more.
kernel_case of_batch_norm(const tensor_form& of, bool residual) {
  return {residual ? "batch_norm_residual" : "batch_norm", of, (residual ? 4 : 3) * bytes_in(of),
          [of, residual](launch_site where, operands& on) {
            const auto c = of.shape.c;
            kernels::normalization what;
            what.x = on.data(of.shape, of.type);
            what.y = on.data(of.shape, of.type);
            if (residual) what.residual = on.data(of.shape, of.type);
            what.scale = on.vector(c);
            what.shift = on.vector(c);
            what.relu = true;
            float *const mean = on.vector(c), *const deviation = on.vector(c);
            what.mean = mean;
            what.inverse_deviation = deviation;
            float* const workspace = on.workspace(kernels::batch_statistics_workspace(of));
            return [=] {
              kernels::batch_statistics(where, what.x, 1e-5F, mean, deviation, of, workspace);
              kernels::normalize(where, what, of);
            };
          }};
}
kernel_case of_batch_statistics(const tensor_form& of) {
  return {"batch_statistics", of, bytes_in(of), [of](launch_site where, operands& on) {
            void* const x = on.data(of.shape, of.type);
            float *const mean = on.vector(of.shape.c), *const deviation = on.vector(of.shape.c);
            float* const workspace = on.workspace(kernels::batch_statistics_workspace(of));
            return [=] { kernels::batch_statistics(where, x, 1e-5F, mean, deviation, of, workspace); };
          }};
}
// Without a residual both passes read x and dy, the second writes dx; with one the first reads x, dy,
// dy2 and y and writes dresidual, the second reads x and dresidual and writes dx.
kernel_case of_batch_norm_backward(const tensor_form& of, bool residual) {
  return {residual ? "batch_norm_backward_residual" : "batch_norm_backward", of,
          (residual ? 8 : 5) * bytes_in(of), [of, residual](launch_site where, operands& on) {
            const auto c = of.shape.c;
            kernels::normalization_gradient what;
            what.x = on.data(of.shape, of.type);
            what.dy = on.data(of.shape, of.type);
            what.dx = on.data(of.shape, of.type);
            if (residual) {
              what.dy2 = on.data(of.shape, of.type);
              what.y = on.data(of.shape, of.type);
              what.dresidual = on.data(of.shape, of.type);
            }
            what.scale = on.vector(c);
            what.shift = on.vector(c);
            what.mean = on.vector(c);
            what.inverse_deviation = on.vector(c);
            what.dscale = on.vector(c);
            what.dshift = on.vector(c);
            what.relu = true;
            float* const workspace = on.workspace(kernels::batch_norm_backward_workspace(of));
            return [=] { kernels::batch_norm_backward(where, what, of, workspace); };
          }};
}
kernel_case of_average(const tensor_form& of) {
  return {"global_average_pool", of, bytes_in(of), [of](launch_site where, operands& on) {
            void* const x = on.data(of.shape, of.type);
            void* const y = on.data({of.shape.n, of.shape.c}, of.type);
            return [=] { kernels::global_average_pool(where, x, y, of); };
          }};
}
kernel_case of_average_backward(const tensor_form& of) {
  return {"global_average_pool_backward", of, bytes_in(of), [of](launch_site where, operands& on) {
            void* const dx = on.data(of.shape, of.type);
            void* const dy = on.data({of.shape.n, of.shape.c}, of.type);
            return [=] { kernels::global_average_pool_backward(where, dy, dx, of); };
          }};
}

kernel_case of_average_pool(const kernels::average_problem& p, bool forward) {
  const tensor_form x{p.x, p.type, p.order};
  return {std::string(forward ? "average_pool" : "average_pool_backward") + "/" +
              std::to_string(p.how.window_h) + "/" + std::to_string(p.how.stride_h),
          x, bytes_in(x) + bytes_in({p.y, p.type}),
          [p, forward](launch_site where, operands& on) -> std::function<void()> {
            void *const xs = on.data(p.x, p.type), *const ys = on.data(p.y, p.type);
            if (forward) return [=] { kernels::average_pool_forward(where, xs, ys, p); };
            return [=] { kernels::average_pool_backward(where, ys, xs, p); };
          }};
}

kernel_case of_grouped(const kernels::grouped_convolution& of, convolution_kind kind) {
  constexpr std::array<const char*, 3> names{"grouped_forward", "grouped_backward_data",
                                             "grouped_backward_filter"};
  const tensor_form x{of.x, of.type, of.order};
  return {std::string(names.at(static_cast<std::size_t>(kind))) + "/" + std::to_string(of.how.groups) + "/" +
              std::to_string(of.how.stride_h),
          x, bytes_in(x) + bytes_in({of.y, of.type}),
          [of, kind](launch_site where, operands& on) -> std::function<void()> {
            void *const xs = on.data(of.x, of.type), *const ys = on.data(of.y, of.type);
            if (kind == convolution_kind::backward_filter) {
              auto* const dw = static_cast<float*>(on.data(of.w, dtype::f32));
              float* const workspace =
                  on.workspace(kernels::grouped_filter_workspace(where.multiprocessors, of));
              return [=] { kernels::grouped_backward_filter(where, of, xs, ys, dw, false, workspace); };
            }
            const void* const w = on.data(of.w, of.type);
            if (kind == convolution_kind::backward_data)
              return [=] { kernels::grouped_backward_data(where, of, w, ys, xs); };
            return [=] { kernels::grouped_forward(where, of, xs, w, nullptr, ys); };
          }};
}

// Each operand once; the arithmetic of these, bound by bytes, is small.
kernel_case of_direct(const tensor_form& x, const kernels::direct_convolution& of, bool forward) {
  const double bytes = bytes_in(x) + bytes_in({of.y, of.type});
  const std::string name = forward ? "direct_forward" : "direct_filter_gradient";
  return {name, x, bytes, [of, forward](launch_site where, operands& on) -> std::function<void()> {
            void *const xs = on.data(of.x, of.type), *const ys = on.data(of.y, of.type);
            if (forward) {
              const void* const w = on.data(of.w, of.type);
              const float* const b = on.vector(of.y.c);
              return [=] { kernels::direct_forward(where, of, xs, w, b, ys); };
            }
            auto* const dw = static_cast<float*>(on.data(of.w, dtype::f32));
            float* const workspace =
                on.workspace(kernels::direct_filter_gradient_workspace(where.multiprocessors, of));
            return [=] { kernels::direct_filter_gradient(where, of, xs, ys, dw, false, workspace); };
          }};
}

kernel_case of_filter_gradient(const kernels::direct_convolution& of) {
  const tensor_form x{of.x, dtype::f32, memory_order::nhwc};
  return {"deep_filter_gradient/" + std::to_string(of.y.c), x, bytes_in(x) + bytes_in({of.y, of.type}),
          [of](launch_site where, operands& on) -> std::function<void()> {
            const auto* const xs = static_cast<const float*>(on.data(of.x, dtype::f32));
            const auto* const ys = static_cast<const float*>(on.data(of.y, dtype::f32));
            auto* const dw = static_cast<float*>(on.data(of.w, dtype::f32));
            float* const workspace =
                on.workspace(kernels::deep_filter_gradient_workspace(where.multiprocessors, of));
            return [=] { kernels::deep_filter_gradient(where, of, xs, ys, dw, false, workspace); };
          },
          2 * static_cast<double>(element_count(of.w)) * static_cast<double>(of.y.n * of.y.h * of.y.w)};
}

// --- the sizes ---

using case_list = std::vector<kernel_case>;

void add_vgg(case_list& all, dtype type, memory_order order) {
  for (const dims shape : {dims{64, 64, 224, 224}, dims{64, 256, 56, 56}, dims{64, 512, 14, 14}}) {
    const tensor_form of{shape, type, order};
    for (const auto make : {of_bias_relu, of_relu_bias_backward, of_bias_backward}) all.push_back(make(of));
    all.push_back(of_max_pool(of, {2, 2, 0}));
    all.push_back(of_max_pool_backward(of, {2, 2, 0}));
  }
}

void add_alexnet(case_list& all, dtype type, memory_order order) {
  for (const dims shape : {dims{512, 64, 55, 55}, dims{512, 192, 27, 27}, dims{512, 256, 13, 13}}) {
    const tensor_form of{shape, type, order};
    for (const auto make : {of_bias_relu, of_relu_bias_backward}) all.push_back(make(of));
    all.push_back(of_max_pool(of, {3, 2, 0}));
    all.push_back(of_max_pool_backward(of, {3, 2, 0}));
  }
}

void add_resnet(case_list& all, dtype type, memory_order order) {
  const tensor_form first{{128, 64, 112, 112}, type, order}, last{{128, 2048, 7, 7}, type, order};
  all.push_back(of_max_pool(first, {3, 2, 1}));
  all.push_back(of_max_pool_backward(first, {3, 2, 1}));
  for (const dims shape :
       {first.shape, dims{128, 256, 56, 56}, dims{128, 128, 28, 28}, dims{128, 1024, 14, 14}, last.shape}) {
    all.push_back(of_batch_statistics({shape, type, order}));
    for (const bool residual : {false, true}) {
      all.push_back(of_batch_norm({shape, type, order}, residual));
      all.push_back(of_batch_norm_backward({shape, type, order}, residual));
    }
  }
  all.push_back(of_average(last));
  all.push_back(of_average_backward(last));
}

// The first layers of VGG-16, ResNet-50 and AlexNet.
void add_first_layers(case_list& all, dtype type) {
  const std::vector<kernels::direct_convolution> layers{
      {{64, 3, 224, 224}, {64, 3, 3, 3}, {64, 64, 224, 224}, {1, 1, 1, 1, true}, type},
      {{128, 3, 224, 224}, {64, 3, 7, 7}, {128, 64, 112, 112}, {2, 2, 3, 3, false}, type},
      {{512, 3, 224, 224}, {64, 3, 11, 11}, {512, 64, 55, 55}, {4, 4, 2, 2, true}, type}};
  for (const kernels::direct_convolution& of : layers) {
    const tensor_form x{of.x, type, memory_order::nhwc};
    for (const bool forward : {true, false}) all.push_back(of_direct(x, of, forward));
  }
}

// Layers of VGG-16 and AlexNet.
void add_filter_gradients(case_list& all) {
  struct layer {
    std::int64_t images, from, to, side, taps;
  };
  for (const layer& l :
       {layer{64, 64, 64, 224, 3}, layer{64, 64, 128, 112, 3}, layer{64, 128, 128, 112, 3},
        layer{64, 256, 256, 56, 3}, layer{64, 256, 512, 28, 3}, layer{64, 512, 512, 14, 3},
        layer{512, 64, 192, 27, 5}, layer{512, 192, 384, 13, 3}, layer{512, 48, 64, 55, 3}}) {
    const auto pad = static_cast<std::int32_t>(l.taps / 2);
    all.push_back(of_filter_gradient({{l.images, l.from, l.side, l.side},
                                      {l.to, l.from, l.taps, l.taps},
                                      {l.images, l.to, l.side, l.side},
                                      {1, 1, pad, pad, false},
                                      dtype::f32}));
  }
}

// DenseNet-121's transitions, an average as Inception's, and depthwise layers of MobileNetV2.
void add_average_and_grouped(case_list& all, dtype type, memory_order order) {
  for (const auto& [channels, side] : {std::pair{128, 56}, {256, 28}, {512, 14}}) {
    const kernels::average_problem halved{{128, channels, side, side},
                                          {128, channels, side / 2, side / 2},
                                          {2, 2, 2, 2},
                                          type,
                                          order,
                                          0,
                                          0,
                                          side};
    for (const bool forward : {true, false}) all.push_back(of_average_pool(halved, forward));
  }
  const dims inception{128, 192, 28, 28};
  for (const bool forward : {true, false}) {
    all.push_back(of_average_pool(
        {inception, inception, {3, 3, 1, 1, 1, 1, true}, type, order, 0, 0, inception.h}, forward));
  }
  struct layer {
    std::int32_t channels, side, stride;
  };
  for (const layer& l : {layer{32, 112, 1}, layer{96, 112, 2}, layer{144, 56, 1}, layer{384, 14, 1}}) {
    convolution how{l.stride, l.stride, 1, 1, false};
    how.groups = l.channels;
    const kernels::grouped_convolution of{{128, l.channels, l.side, l.side},
                                          {l.channels, 1, 3, 3},
                                          {128, l.channels, l.side / l.stride, l.side / l.stride},
                                          how,
                                          type,
                                          order};
    for (const convolution_kind kind :
         {convolution_kind::forward, convolution_kind::backward_data, convolution_kind::backward_filter}) {
      all.push_back(of_grouped(of, kind));
    }
  }
}

case_list cases() {
  case_list all;
  add_filter_gradients(all);
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    const tensor_form matrix{{4096, 512, 7, 7}, type, memory_order::nchw};
    all.push_back(of_cast(matrix));
    all.push_back(of_add({{128, 256, 56, 56}, type, memory_order::nchw}));
    if (type == dtype::f32) all.push_back(of_sgd_update(matrix));
    add_first_layers(all, type);
    for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
      add_vgg(all, type, order);
      add_alexnet(all, type, order);
      add_resnet(all, type, order);
      add_average_and_grouped(all, type, order);
    }
  }
  return all;
}

std::string name_of(const kernel_case& c) {
  return c.name + "/" + to_text(c.of.shape) + "/" + std::string(to_text(c.of.type)) + "/" +
         std::string(to_text(c.of.order));
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const device gpu = open_device();
  benchmark::AddCustomContext("copy_bytes_per_second", std::to_string(gpu.copy_bytes_per_s));
  for (const kernel_case& c : cases()) {
    benchmark::RegisterBenchmark(name_of(c).c_str(),
                                 [&gpu, c](benchmark::State& state) { measure(state, gpu, c); })
        ->UseManualTime()
        ->MinTime(0.02)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace um

int main(int argc, char** argv) {
  try {
    return um::run(argc, argv);
  } catch (const std::exception& reason) {
    std::cerr << "error: " << reason.what() << '\n';
    return 1;
  }
}
