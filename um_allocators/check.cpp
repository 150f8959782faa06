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

void require_gpu(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    throw unsupported(std::string("no GPU can be used: ") +
                      (status == cudaSuccess ? "none is visible" : cudaGetErrorString(status)) +
                      "; check the driver with nvidia-smi, or use a simulated machine (sim:NAME)");
  }
  if (device < 0 || device >= count) {
    throw unsupported("there is no GPU cuda:" + std::to_string(device) +
                      "; this machine has cuda:0 to cuda:" + std::to_string(count - 1));
  }
}

int device_attribute(cudaDeviceAttr what, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, what, device));
  return value;
}

}  // namespace um
