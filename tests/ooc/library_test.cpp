// The library's calls: arguments without a GPU; with one, what operands in host memory give within budgets
// that make parts, against operands in device memory, and against the reference.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ooc/umbench_ooc.h"
#include "tests/reference/reference.hpp"

namespace {

constexpr float one = 1, zero = 0;
constexpr int n = 4, c = 32, h = 24, w = 24, k = 48;

struct handle {
  oocHandle_t get = nullptr;
  handle() { EXPECT_EQ(oocCreate(&get), CUDNN_STATUS_SUCCESS); }
  ~handle() { oocDestroy(get); }
  handle(const handle&) = delete;
  handle& operator=(const handle&) = delete;
};

struct descriptors {
  oocTensorDescriptor_t x = nullptr, y = nullptr, b = nullptr, p = nullptr;
  oocFilterDescriptor_t filter = nullptr;
  oocConvolutionDescriptor_t conv = nullptr;
  oocActivationDescriptor_t relu = nullptr;
  oocPoolingDescriptor_t pool = nullptr;
  descriptors() {
    oocCreateTensorDescriptor(&x);
    oocCreateTensorDescriptor(&y);
    oocCreateTensorDescriptor(&b);
    oocCreateTensorDescriptor(&p);
    oocCreateFilterDescriptor(&filter);
    oocCreateConvolutionDescriptor(&conv);
    oocCreateActivationDescriptor(&relu);
    oocCreatePoolingDescriptor(&pool);
    oocSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w);
    oocSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, h, w);
    oocSetTensor4dDescriptor(p, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, h / 2, w / 2);
    oocSetTensor4dDescriptor(b, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, k, 1, 1);
    oocSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k, c, 3, 3);
    oocSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    oocSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0);
    oocSetPooling2dDescriptor(pool, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2);
  }
  ~descriptors() {
    oocDestroyTensorDescriptor(x);
    oocDestroyTensorDescriptor(y);
    oocDestroyTensorDescriptor(b);
    oocDestroyTensorDescriptor(p);
    oocDestroyFilterDescriptor(filter);
    oocDestroyConvolutionDescriptor(conv);
    oocDestroyActivationDescriptor(relu);
    oocDestroyPoolingDescriptor(pool);
  }
  descriptors(const descriptors&) = delete;
  descriptors& operator=(const descriptors&) = delete;
};

cudnnStatus_t forward(const handle& on, const descriptors& d, const void* x, const void* filter, void* y,
                      const void* alpha = &one, const void* beta = &zero) {
  return oocConvolutionForward(on.get, alpha, d.x, x, d.filter, filter, d.conv,
                               CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, beta, d.y, y);
}

// --- without a GPU: whatever is wrong is said before a device is looked for ---

TEST(ooc_library, descriptors_refuse_what_does_not_exist_or_is_not_supported) {
  descriptors d;
  EXPECT_EQ(oocCreateTensorDescriptor(nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(oocSetTensor4dDescriptor(nullptr, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(oocSetTensor4dDescriptor(d.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 1, 1, 1),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(oocSetTensor4dDescriptor(d.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 1, 1, 1, 1),
            CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(
      oocSetConvolution2dDescriptor(d.conv, 1, 1, 1, 1, 2, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(
      oocSetConvolution2dDescriptor(d.conv, -1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(oocSetActivationDescriptor(d.relu, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0),
            CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(oocSetPooling2dDescriptor(d.pool, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 3, 0, 0, 2, 2),
            CUDNN_STATUS_NOT_SUPPORTED);
}

TEST(ooc_library, calls_refuse_wrong_arguments) {
  const handle on;
  const descriptors d;
  std::vector<float> x(n * c * h * w), filter(k * c * 9), y(n * k * h * w);
  EXPECT_EQ(oocConvolutionForward(nullptr, &one, d.x, x.data(), d.filter, filter.data(), d.conv,
                                  CUDNN_CONVOLUTION_FWD_ALGO_GEMM, nullptr, 0, &zero, d.y, y.data()),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(forward(on, d, nullptr, filter.data(), y.data()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(forward(on, d, x.data(), filter.data(), y.data(), nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(forward(on, d, x.data(), filter.data(), y.data(), &one, &one), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_NE(std::string(oocGetLastErrorMessage(on.get)), "");
  oocSetTensor4dDescriptor(d.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, h + 1, w);
  EXPECT_EQ(forward(on, d, x.data(), filter.data(), y.data()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(oocSetBudget(nullptr, 1), CUDNN_STATUS_BAD_PARAM);
  oocTensorDescriptor_t unset = nullptr;
  oocCreateTensorDescriptor(&unset);
  EXPECT_EQ(oocConvolutionBackwardBias(on.get, &one, unset, y.data(), &zero, d.b, x.data()),
            CUDNN_STATUS_BAD_PARAM);
  oocDestroyTensorDescriptor(unset);
}

// --- on a GPU ---

using namespace um;

// A buffer in host or device memory, filled with numbers of a seed.
class buffer {
 public:
  buffer(std::size_t count, bool on_device, unsigned seed) : host_(count), on_device_(on_device) {
    for (float& v : host_) {
      seed = seed * 1664525U + 1013904223U;
      v = static_cast<float>(seed >> 8) / static_cast<float>(1U << 23) - 1;
    }
    if (on_device) {
      EXPECT_EQ(cudaMalloc(&device_, count * sizeof(float)), cudaSuccess);
      EXPECT_EQ(cudaMemcpy(device_, host_.data(), count * sizeof(float), cudaMemcpyDefault), cudaSuccess);
    }
  }
  ~buffer() { cudaFree(device_); }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  void* data() { return on_device_ ? device_ : host_.data(); }
  std::vector<float> values() {
    std::vector<float> all(host_.size());
    EXPECT_EQ(cudaMemcpy(all.data(), data(), all.size() * sizeof(float), cudaMemcpyDefault), cudaSuccess);
    return all;
  }

 private:
  std::vector<float> host_;
  void* device_ = nullptr;
  bool on_device_;
};

struct operands {
  buffer x, y, dy, filter, b, p, dx, dw, db;
  explicit operands(bool on_device)
      : x(n * c * h * w, on_device, 1),
        y(n * k * h * w, on_device, 2),
        dy(n * k * h * w, on_device, 3),
        filter(k * c * 9, on_device, 4),
        b(k, on_device, 5),
        p(n * k * h * w / 4, on_device, 6),
        dx(n * c * h * w, on_device, 7),
        dw(k * c * 9, on_device, 8),
        db(k, on_device, 9) {}
};

double error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

class ooc_library_on_gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
  }

  using calling = std::function<cudnnStatus_t(oocHandle_t, const descriptors&, operands&)>;
  using result = std::function<std::vector<float>(operands&)>;

  // From host memory within a small budget as with everything on the device.
  void expect_alike(const calling& call, const std::vector<result>& results) {
    const descriptors d;
    handle on;
    operands whole(true);
    ASSERT_EQ(call(on.get, d, whole), CUDNN_STATUS_SUCCESS) << oocGetLastErrorMessage(on.get);
    std::size_t parts = 0;
    oocGetLastParts(on.get, &parts);
    EXPECT_EQ(parts, 1U) << "nothing to divide";
    for (const std::size_t budget : {std::size_t{64} << 20, std::size_t{1} << 20}) {
      operands home(false);
      oocSetBudget(on.get, budget);
      ASSERT_EQ(call(on.get, d, home), CUDNN_STATUS_SUCCESS)
          << oocGetLastErrorMessage(on.get) << " " << budget;
      oocGetLastParts(on.get, &parts);
      if (budget < std::size_t{2} << 20) {
        EXPECT_GT(parts, 1U);
      }
      for (const result& r : results) EXPECT_LE(error(r(home), r(whole)), 1e-5) << budget;
    }
  }
};

TEST_F(ooc_library_on_gpu, convolutions_in_parts_are_those_of_the_whole) {
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocConvolutionForward(on, &one, d.x, o.x.data(), d.filter, o.filter.data(), d.conv,
                                     CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, d.y,
                                     o.y.data());
      },
      {[](operands& o) { return o.y.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocConvolutionBackwardData(on, &one, d.filter, o.filter.data(), d.y, o.dy.data(), d.conv,
                                          CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &zero, d.x,
                                          o.dx.data());
      },
      {[](operands& o) { return o.dx.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocConvolutionBackwardFilter(on, &one, d.x, o.x.data(), d.y, o.dy.data(), d.conv,
                                            CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, &zero, d.filter,
                                            o.dw.data());
      },
      {[](operands& o) { return o.dw.values(); }});
}

TEST_F(ooc_library_on_gpu, biases_activations_and_pools_are_those_of_the_whole) {
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocConvolutionBackwardBias(on, &one, d.y, o.dy.data(), &zero, d.b, o.db.data());
      },
      {[](operands& o) { return o.db.values(); }});
  expect_alike([](oocHandle_t on, const descriptors& d,
                  operands& o) { return oocAddTensor(on, &one, d.b, o.b.data(), &one, d.y, o.y.data()); },
               {[](operands& o) { return o.y.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocActivationForward(on, d.relu, &one, d.y, o.dy.data(), &zero, d.y, o.y.data());
      },
      {[](operands& o) { return o.y.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocActivationBackward(on, d.relu, &one, d.y, o.y.data(), d.y, o.dy.data(), d.y, o.dy.data(),
                                     &zero, d.y, o.dy.data());
      },
      {[](operands& o) { return o.dy.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocPoolingForward(on, d.pool, &one, d.y, o.y.data(), &zero, d.p, o.p.data());
      },
      {[](operands& o) { return o.p.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocPoolingBackward(on, d.pool, &one, d.p, o.p.data(), d.p, o.p.data(), d.y, o.y.data(), &zero,
                                  d.y, o.dy.data());
      },
      {[](operands& o) { return o.dy.values(); }});
}

TEST_F(ooc_library_on_gpu, fused_calls_are_those_of_the_whole) {
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocConvolutionBiasActivationForward(on, &one, d.x, o.x.data(), d.filter, o.filter.data(),
                                                   d.conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr,
                                                   0, &zero, d.y, nullptr, d.b, o.b.data(), d.relu, d.y,
                                                   o.y.data());
      },
      {[](operands& o) { return o.y.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocConvolutionBiasActivationPoolingForward(on, d.x, o.x.data(), d.filter, o.filter.data(),
                                                          d.conv, d.b, o.b.data(), d.relu, d.y, o.y.data(),
                                                          d.pool, d.p, o.p.data());
      },
      {[](operands& o) { return o.y.values(); }, [](operands& o) { return o.p.values(); }});
  expect_alike(
      [](oocHandle_t on, const descriptors& d, operands& o) {
        return oocConvolutionBiasActivationBackward(on, d.x, o.x.data(), d.filter, o.filter.data(), d.conv,
                                                    d.relu, d.y, o.y.data(), d.y, o.dy.data(), d.filter,
                                                    o.dw.data(), d.b, o.db.data(), d.x, o.dx.data());
      },
      {[](operands& o) { return o.dw.values(); }, [](operands& o) { return o.db.values(); },
       [](operands& o) { return o.dx.values(); }});
}

// Where all fits, the whole is right.
TEST_F(ooc_library_on_gpu, the_whole_is_what_the_reference_says) {
  const descriptors d;
  const handle on;
  operands o(false);
  ASSERT_EQ(forward(on, d, o.x.data(), o.filter.data(), o.y.data()), CUDNN_STATUS_SUCCESS)
      << oocGetLastErrorMessage(on.get);
  graph g;
  g.tensors = {{"x", {n, c, h, w}, dtype::f32, role::input},
               {"w", {k, c, 3, 3}, dtype::f32, role::parameter},
               {"y", {n, k, h, w}, dtype::f32, role::output}};
  g.ops = {{"convolution", convolution{1, 1, 1, 1}, {0, 1}, {2}, true, {}}};
  const auto widened = [](const std::vector<float>& v) { return reference::values(v.begin(), v.end()); };
  const auto all = reference::execute(g, {{0, widened(o.x.values())}, {1, widened(o.filter.values())}});
  const std::vector<float> expected(all.at(2).begin(), all.at(2).end());
  EXPECT_LE(error(o.y.values(), expected), 1e-5);
}

}  // namespace
