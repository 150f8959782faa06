#include "backends/cuda/lazy_library.hpp"

#include <dlfcn.h>

#include <string>

#include "core/errors.hpp"

namespace um {
namespace {

void* open_library(const library_names& library) {
  if (library.required_library != nullptr) open_library(*library.required_library);
  if (void* const found = dlopen(library.soname, RTLD_NOW | RTLD_LOCAL)) return found;
  const std::string why = dlerror();
  if (void* const found = dlopen(library.build_path, RTLD_NOW | RTLD_LOCAL)) return found;
  throw unsupported("a library of CUDA cannot be loaded: " + why + "; name its folder in LD_LIBRARY_PATH");
}

}  // namespace

constinit const library_names cublas{UM_CUBLASLT_SONAME, UM_CUBLASLT_PATH};
constinit const library_names cudnn{"libcudnn.so.9", UM_CUDNN_PATH, &cublas};

void* symbol_of(const library_names& library, const char* symbol) {
  void* const found =
      dlsym(open_library(library), symbol);  // opening it again only increments its reference count
  if (found == nullptr) throw unsupported(std::string(library.soname) + " has no " + symbol);
  return found;
}

}  // namespace um
