#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "measure/families.hpp"
#include "measure/running.hpp"

namespace um::measure {
namespace {

enum class operand_place : std::uint8_t { device, managed_cold, managed_warm, prefetched, zero_copy };
constexpr std::array<const char*, 5> placing_names{"device", "managed_cold", "managed_warm", "prefetched",
                                                   "zero_copy"};
constexpr std::array<const char*, 5> operand_resets{
    "nothing to put back: device memory", "operands prefetched to the CPU", "operands prefetched to the GPU",
    "operands prefetched to the CPU", "nothing to put back: pinned memory, reached over the link"};

constexpr byte_count max_over_the_link = 3 * GiB, max_counted = 512 * MiB;

struct layer {
  std::string name;
  convolution_problem forward;
  bool is_first = false;  // first layer of its network: the gradient of its input is not needed
};

struct filter_shape {
  const char* name;
  std::int64_t c, k, h;  // input channels, filters, height and width
  std::int32_t r = 3, stride = 1, pad = 1;
};

convolution_problem forward_of(std::int64_t batch, const filter_shape& s) {
  const std::int64_t out = (s.h + 2 * s.pad - s.r) / s.stride + 1;
  convolution_problem p = vgg_convolution(batch, s.c, s.k, s.h);
  p.w = {s.k, s.c, s.r, s.r};
  p.y = {batch, s.k, out, out};
  p.attributes = {s.stride, s.stride, s.pad, s.pad, true};
  return p;
}

std::vector<layer> layers() {
  constexpr std::array<filter_shape, 5> alexnet{{{"conv1", 3, 64, 224, 11, 4, 2},
                                                 {"conv2", 64, 192, 27, 5, 1, 2},
                                                 {"conv3", 192, 384, 13},
                                                 {"conv4", 384, 256, 13},
                                                 {"conv5", 256, 256, 13}}};
  // conv3_3, conv4_3 and the second and third of conv5 repeat the shapes before them.
  constexpr std::array<filter_shape, 9> vgg{{{"conv1_1", 3, 64, 224},
                                             {"conv1_2", 64, 64, 224},
                                             {"conv2_1", 64, 128, 112},
                                             {"conv2_2", 128, 128, 112},
                                             {"conv3_1", 128, 256, 56},
                                             {"conv3_2", 256, 256, 56},
                                             {"conv4_1", 256, 512, 28},
                                             {"conv4_2", 512, 512, 28},
                                             {"conv5_1", 512, 512, 14}}};
  std::vector<layer> all;
  for (const filter_shape& s : alexnet)
    all.push_back({std::string("alexnet_b512/") + s.name, forward_of(512, s), s.c == 3});
  for (const filter_shape& s : vgg)
    all.push_back({std::string("vgg16_b64/") + s.name, forward_of(64, s), s.c == 3});
  for (std::int64_t c = 32; c <= 1024; c *= 2) {
    all.push_back({"image_1024x1024/channels:" + std::to_string(c), vgg_convolution(1, c, c, 1024), false});
  }
  return all;
}

convolution_problem with_kind(convolution_problem p, convolution_kind kind) {
  p.kind = kind;
  if (kind == convolution_kind::forward) return p;
  p.has_bias = p.attributes.relu = false;
  return p;
}

// A convolution whose operands lie in one of five kinds of memory.
class placed_convolution {
 public:
  placed_convolution(bench& on, const convolution_problem& what, operand_place where)
      : bench_(on), where_(where) {
    const byte_count bytes = layout_of(operand_bytes(what)).bytes;
    memory_ = where == operand_place::device      ? on.device_memory(bytes)
              : where == operand_place::zero_copy ? on.pinned_memory(bytes)
                                                  : on.managed_memory(bytes);
    if (is_managed()) bring_to_device(on, memory_.range());
    fill_randomly_by_gpu(on.libraries(), memory_.data(), bytes);
    work_ = bind_operator(on, what, memory_.data());
    if (where == operand_place::zero_copy) return;
    work_.call();  // loads kernels and libraries
    check(cudaStreamSynchronize(on.libraries().compute().stream));
  }
  void reset() const {
    if (where_ == operand_place::managed_warm) return bring_to_device(bench_, memory_.range());
    if (is_managed()) bring_to_host(bench_, memory_.range());
  }
  repetition run() const {
    const cudaStream_t stream = bench_.libraries().compute().stream;
    return time_by_events(stream, [&] {
      if (where_ == operand_place::prefetched) prefetch_to_device(memory_.range(), bench_.device(), stream);
      work_.call();
    });
  }

 private:
  bool is_managed() const { return where_ != operand_place::device && where_ != operand_place::zero_copy; }

  bench& bench_;
  operand_place where_;
  leased_memory memory_;
  bound_operator work_;
};

benchmark_case convolution_case(const layer& of, convolution_kind kind, operand_place where) {
  constexpr std::array<const char*, 3> kinds{"/forward", "/backward_data", "/backward_filter"};
  const convolution_problem what = with_kind(of.forward, kind);
  const auto place = static_cast<std::size_t>(where);
  benchmark_case m;
  m.name = "convolution/" + of.name + kinds.at(static_cast<std::size_t>(kind)) +
           "/memory:" + placing_names.at(place);
  for (const byte_count bytes : operand_bytes(what)) m.bytes += bytes;
  if (where != operand_place::device && where != operand_place::managed_warm)
    m.link_direction = copy_direction::to_device;
  m.reset_text = operand_resets.at(place);
  m.migrates = where == operand_place::managed_cold && m.bytes <= max_counted;
  m.repetitions = m.bytes > GiB || where == operand_place::zero_copy ? 1 : 3;
  m.prepare = [=, bytes = m.bytes](bench& on) -> trial {
    if (where == operand_place::zero_copy && bytes > max_over_the_link) {
      throw unsupported("operands of " + to_text(bytes) +
                        " would cross the link tens of times, which takes " +
                        "up to a minute; smaller images show how often");
    }
    const auto work = std::make_shared<placed_convolution>(on, what, where);
    return {[work] { work->reset(); }, [work] { return work->run(); }};
  };
  return m;
}

}  // namespace

benchmark_case square_product(precision arithmetic, std::int64_t side) {
  benchmark_case m;
  m.name =
      std::string("device/product/") + std::string(to_text(arithmetic)) + "/side:" + std::to_string(side);
  m.reset_text = "nothing to put back: device memory";
  m.repetitions = 5;
  m.prepare = [=](bench& on) -> trial {
    const auto work = std::make_shared<operator_with_operands>(
        operator_on_device(on, matrix_problem{.n = side, .in = side, .out = side, .arithmetic = arithmetic}));
    return {{}, [&on, work] {
              return time_by_events(on.libraries().compute().stream, [&] { work->work.call(); });
            }};
  };
  return m;
}

benchmark_case device_copy(byte_count bytes) {
  benchmark_case m;
  m.name = "device/device_copy/size:" + bytes_text(bytes);
  m.bytes = 2 * bytes;
  m.reset_text = "nothing to put back: device memory";
  m.repetitions = 5;
  m.prepare = [bytes](bench& on) -> trial {
    const auto memory = on.shared_device(2 * bytes);
    return {{}, [&on, memory, bytes] {
              return time_by_events(on.stream(), [&] {
                check(cudaMemcpyAsync(memory->data() + bytes, memory->data(), bytes, cudaMemcpyDeviceToDevice,
                                      on.stream()));
              });
            }};
  };
  return m;
}

benchmark_case empty_launches(int count) {
  benchmark_case m;
  m.name = "device/empty_launch/count:" + std::to_string(count);
  m.reset_text = "nothing to put back: no memory";
  m.repetitions = 5;
  m.prepare = [count](bench& on) -> trial {
    return {{}, [&on, count] {
              return time_by_host([&] {
                for (int i = 0; i < count; ++i) launch_nothing(on.site());
              });
            }};
  };
  return m;
}

std::vector<benchmark_case> device_cases(const device_facts&) {
  std::vector<benchmark_case> all{device_copy(GiB), empty_launches(1000)};
  for (const precision p : {precision::fp32, precision::tf32, precision::bf16}) {
    all.push_back(square_product(p, 8192));
  }
  return all;
}

std::vector<benchmark_case> convolution_cases(const device_facts&) {
  std::vector<benchmark_case> all;
  for (const layer& l : layers()) {
    for (const convolution_kind kind :
         {convolution_kind::forward, convolution_kind::backward_data, convolution_kind::backward_filter}) {
      if (l.is_first && kind == convolution_kind::backward_data) continue;
      for (std::size_t where = 0; where < placing_names.size(); ++where) {
        all.push_back(convolution_case(l, kind, static_cast<operand_place>(where)));
      }
    }
  }
  return all;
}

}  // namespace um::measure
