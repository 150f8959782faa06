// Stands for libcuda.so.1. Writes into the file FAKE_CUDA_LOG which process initialises the driver ("PID
// init") and which one forks after it did ("PID fork"): in a child of such a process CUDA does not work. No
// GPU is found; or, if FAKE_CUDA_ANSWER is set, its text is written to standard output and the process ends:
// what one that is asked for the GPU would have said.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int success = 0, not_initialized = 3, no_device = 100, not_found = 500;
constexpr int newer_than_any_runtime = 99990;

void note(const char* what) {
  const char* log = std::getenv("FAKE_CUDA_LOG");
  const int file = log ? open(log, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
  char line[64];
  const int length = std::snprintf(line, sizeof line, "%d %s\n", static_cast<int>(getpid()), what);
  if (file < 0 || write(file, line, static_cast<std::size_t>(length)) != length) std::abort();
  close(file);
}

int not_here() {
  return not_initialized;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  note("init");
  pthread_atfork([] { note("fork"); }, nullptr, nullptr);
  const char* answer = std::getenv("FAKE_CUDA_ANSWER");
  if (answer == nullptr) return no_device;
  _exit(write(STDOUT_FILENO, answer, std::strlen(answer)) < 0 ? 1 : 0);
}
int cuDriverGetVersion(int* version) {
  *version = newer_than_any_runtime;
  return success;
}
int cuGetExportTable(const void**, const void*) {
  return not_found;
}
int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* found) {
  *function = dlsym(RTLD_DEFAULT, name);
  if (*function == nullptr) *function = reinterpret_cast<void*>(&not_here);
  if (found != nullptr) *found = 0;
  return success;
}
int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"
