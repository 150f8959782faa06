#include "trace/places.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <string_view>

namespace um::tracing {
namespace {

constexpr int most_frames = 32;
constexpr std::size_t most_callers = 8;

bool find(std::uint64_t address, Dl_info& info) {
  return dladdr(reinterpret_cast<void*>(address), &info) != 0 && info.dli_fname != nullptr;
}

bool is_of_cuda(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  for (const std::string_view prefix : {"libcuda.", "libcupti", "libcudart", "libumbench_trace"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

std::string place_of(std::uint64_t program_counter) {
  Dl_info info{};
  if (!find(program_counter, info)) return {};
  const auto base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
  const auto* const header = static_cast<const ElfW(Ehdr)*>(info.dli_fbase);
  const std::uint64_t offset = header->e_type == ET_EXEC ? program_counter : program_counter - base;
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "+0x%llx", static_cast<unsigned long long>(offset));
  std::string text = std::string(info.dli_fname) + number.data();
  if (info.dli_sname != nullptr) text += std::string(" ") + info.dli_sname;
  return text;
}

call_stack stack_here() {
  call_stack frames(most_frames);
  frames.resize(static_cast<std::size_t>(backtrace(frames.data(), most_frames)));
  return frames;
}

std::vector<std::string> callers_of(const call_stack& stack) {
  std::vector<std::string> all;
  for (void* const frame : stack) {
    const std::uint64_t call = reinterpret_cast<std::uint64_t>(frame) - 1;
    Dl_info info{};
    if (find(call, info) && !is_of_cuda(info.dli_fname)) all.push_back(place_of(call));
    if (all.size() == most_callers) break;
  }
  return all;
}

}  // namespace um::tracing
