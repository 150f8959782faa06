#include "tests/trace/fake_cupti.hpp"

#include <cupti.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <variant>

namespace {

using record = std::variant<CUpti_ActivityUnifiedMemoryCounter3, CUpti_ActivityKernel10>;

std::mutex guard;
std::deque<record> waiting;
std::atomic<std::uint64_t> time_now = 1;
std::atomic<bool> counting = false, counting_faults = false;
CUpti_BuffersCallbackRequestFunc ask = nullptr;
CUpti_BuffersCallbackCompleteFunc give = nullptr;
CUpti_CallbackFunc callback = nullptr;

// Fills one buffer; false where nothing is left.
bool hand_out() {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, most = 0, filled = 0;
  ask(&buffer, &size, &most);
  {
    const std::lock_guard lock(guard);
    while (!waiting.empty()) {
      const auto copy = [&](const auto& of) {
        if (filled + sizeof(of) > size) return false;
        std::memcpy(buffer + filled, &of, sizeof(of));
        filled += sizeof(of);
        return true;
      };
      if (!std::visit(copy, waiting.front())) break;
      waiting.pop_front();
    }
  }
  give(nullptr, 0, buffer, size, filled);
  return filled > 0;
}

std::size_t size_of(const CUpti_Activity& of) {
  return of.kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER ? sizeof(CUpti_ActivityUnifiedMemoryCounter3)
                                                               : sizeof(CUpti_ActivityKernel10);
}

}  // namespace

extern "C" {

void fake_time(std::uint64_t ns) {
  time_now = ns;
}
void fake_context(std::uint32_t device) {
  CUpti_ResourceData data{};
  data.context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
  callback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &data);
}
void fake_move(std::uint32_t count, std::uint64_t address, std::uint64_t bytes_each) {
  if (!counting) return;
  CUpti_ActivityUnifiedMemoryCounter3 c{};
  c.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
  c.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
  c.value = bytes_each;
  c.start = c.end = time_now;
  c.flags = CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE;
  const std::lock_guard lock(guard);
  for (std::uint32_t i = 0; i < count; ++i) {
    c.address = address + i * bytes_each;
    waiting.emplace_back(c);
  }
}
void fake_kernel(std::uint64_t begin, std::uint64_t end, const char* name) {
  CUpti_ActivityKernel10 k{};
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.start = begin;
  k.end = end;
  k.name = name;
  const std::lock_guard lock(guard);
  waiting.emplace_back(k);
}
bool fake_counts() {
  return counting;
}
bool fake_counts_faults() {
  return counting && counting_faults;
}
std::uint32_t fake_waiting() {
  const std::lock_guard lock(guard);
  return static_cast<std::uint32_t>(waiting.size());
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  ask = request;
  give = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig* wanted,
                                                       uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (wanted[i].kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT)
      counting_faults = wanted[i].enable != 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) counting = true;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) counting = false;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  while (hand_out()) {
  }
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** at) {
  std::uint8_t* const first = buffer;
  auto* const next = *at == nullptr ? first : reinterpret_cast<std::uint8_t*>(*at) + size_of(**at);
  if (next >= first + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *at = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "refused";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc each, void*) {
  callback = each;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* time) {
  *time = time_now;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* device) {
  *device = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(context)) - 1;
  return CUPTI_SUCCESS;
}
}
