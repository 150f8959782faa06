#include "um_allocators/check.hpp"

namespace um {

std::string error_text(std::source_location where, std::string_view library, std::string_view meaning) {
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  std::string text{file};
  text += ':' + std::to_string(where.line()) + ": ";
  text += library;
  text += ": ";
  text += meaning;
  return text;
}

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  const std::string meaning = std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) throw out_of_memory(error_text(where, "CUDA", meaning));
  throw cuda_error(error_text(where, "CUDA", meaning));
}

}  // namespace um
