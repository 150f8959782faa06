// A library that answers as NVML does, of one made-up GPU at 0000:1b:00.0; some functions it lacks, as old
// drivers do, and some things it does not know.
#include <cstring>

namespace {

constexpr int success = 0, not_supported = 3, not_found = 6;
int the_gpu = 0;

struct process {
  unsigned id;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

int is_gpu(void* device) {
  return device == &the_gpu ? success : not_found;
}

int list(void* device, unsigned* count, process* into, unsigned first, unsigned last) {
  *count = 0;
  for (unsigned id = first; id <= last; ++id) into[(*count)++] = {id, 1, 0, 0};
  return is_gpu(device);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return success;
}
int nvmlShutdown() {
  return success;
}
const char* nvmlErrorString(int status) {
  return status == not_found ? "Not Found" : "some error";
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  *device = &the_gpu;
  return std::strcmp(bus_id, "0000:1b:00.0") == 0 ? success : not_found;
}
int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) {
  return not_supported;
}
int nvmlDeviceGetPersistenceMode(void* device, unsigned* mode) {
  *mode = 1;
  return is_gpu(device);
}
int nvmlDeviceGetComputeMode(void* device, unsigned* mode) {
  *mode = 3;
  return is_gpu(device);
}
int nvmlDeviceGetVirtualizationMode(void* device, unsigned* mode) {
  *mode = 77;
  return is_gpu(device);
}
int nvmlDeviceGetMaxClockInfo(void* device, unsigned kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1980 : 3201;
  return is_gpu(device);
}
int nvmlDeviceGetClockInfo(void* device, unsigned kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1755 : 3200;
  return is_gpu(device);
}
int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  *celsius = 41 + sensor;
  return is_gpu(device);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 321'000;
  return is_gpu(device);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* generation) {
  *generation = 5;
  return is_gpu(device);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  *bits = 0x4 | 0x40 | 0x1000;
  return is_gpu(device);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void* device, unsigned* count, process* into) {
  return list(device, count, into, 1, 0);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, process* into) {
  return list(device, count, into, 10, 12);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, process* into) {
  return list(device, count, into, 12, 13);
}
// 3 J more at each question.
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long spent = 9'000'000'000'000;
  *millijoules = spent += 3000;
  return is_gpu(device);
}

}  // extern "C"
