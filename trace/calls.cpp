#include "trace/calls.hpp"

namespace um::tracing {
namespace {

std::uint32_t device_of(const CUmemLocation& at) {
  return at.type == CU_MEM_LOCATION_TYPE_DEVICE ? static_cast<std::uint32_t>(at.id) : host;
}

const char* advice_name(CUmem_advise advice) {
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      return "read_mostly";
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      return "unset_read_mostly";
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      return "preferred_location";
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      return "unset_preferred_location";
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      return "accessed_by";
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      return "unset_accessed_by";
    default:
      return "advice";
  }
}

struct call_batch {
  const CUdeviceptr* at = nullptr;
  const std::size_t* bytes = nullptr;
  std::size_t count = 0;
};

std::vector<hint> hints_of(const char* call, const call_batch& of, const CUmemLocation* locations,
                           const std::size_t* location_of, std::size_t location_count) {
  std::vector<hint> all;
  std::size_t location = 0;
  for (std::size_t i = 0; i < of.count; ++i) {
    while (location + 1 < location_count && location_of[location + 1] <= i) ++location;
    const std::uint32_t device = location_count > 0 ? device_of(locations[location]) : host;
    all.push_back({.call = call, .address = of.at[i], .bytes = of.bytes[i], .device = device, .callers = {}});
  }
  return all;
}

template <class Parameters>
const Parameters& parameters_as(const void* parameters) {
  return *static_cast<const Parameters*>(parameters);
}

constexpr CUpti_CallbackId watched[] = {CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAdvise,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAdvise_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync_ptsz};

}  // namespace

std::vector<hint> hints_of(CUpti_CallbackId call, const void* p) {
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_ptsz: {
      const auto& a = parameters_as<cuMemPrefetchAsync_params>(p);
      return {{.call = "prefetch",
               .address = a.devPtr,
               .bytes = a.count,
               .device = static_cast<std::uint32_t>(a.dstDevice),
               .callers = {}}};  // the CPU is -1
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2_ptsz: {
      const auto& a = parameters_as<cuMemPrefetchAsync_v2_params>(p);
      return {{.call = "prefetch",
               .address = a.devPtr,
               .bytes = a.count,
               .device = device_of(a.location),
               .callers = {}}};
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemAdvise: {
      const auto& a = parameters_as<cuMemAdvise_params>(p);
      return {{.call = advice_name(a.advice),
               .address = a.devPtr,
               .bytes = a.count,
               .device = static_cast<std::uint32_t>(a.device),
               .callers = {}}};
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemAdvise_v2: {
      const auto& a = parameters_as<cuMemAdvise_v2_params>(p);
      return {{.call = advice_name(a.advice),
               .address = a.devPtr,
               .bytes = a.count,
               .device = device_of(a.location),
               .callers = {}}};
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync_ptsz: {
      const auto& a = parameters_as<cuMemPrefetchBatchAsync_params>(p);
      return hints_of("prefetch", {a.dptrs, a.sizes, a.count}, a.prefetchLocs, a.prefetchLocIdxs,
                      a.numPrefetchLocs);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync_ptsz: {
      const auto& a = parameters_as<cuMemDiscardBatchAsync_params>(p);
      return hints_of("discard", {a.dptrs, a.sizes, a.count}, nullptr, nullptr, 0);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync_ptsz: {
      const auto& a = parameters_as<cuMemDiscardAndPrefetchBatchAsync_params>(p);
      return hints_of("discard_and_prefetch", {a.dptrs, a.sizes, a.count}, a.prefetchLocs, a.prefetchLocIdxs,
                      a.numPrefetchLocs);
    }
    default:
      return {};
  }
}

std::span<const CUpti_CallbackId> watched_calls() {
  return watched;
}

}  // namespace um::tracing
