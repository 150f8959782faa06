// Definitions of the functions of cuDNN that umbench and cudnn-frontend use, which forward to the library
// when it is opened.
#include <cudnn.h>

#include "backends/cuda/lazy_library.hpp"

using um::cudnn;

size_t cudnnGetVersion() {
  return um::forward_to<&cudnnGetVersion>(cudnn, "cudnnGetVersion");
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return um::forward_to<&cudnnGetErrorString>(cudnn, "cudnnGetErrorString", status);
}
void cudnnGetLastErrorString(char* message, size_t bytes) {
  um::forward_to<&cudnnGetLastErrorString>(cudnn, "cudnnGetLastErrorString", message, bytes);
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return um::forward_to<&cudnnCreate>(cudnn, "cudnnCreate", handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return um::forward_to<&cudnnDestroy>(cudnn, "cudnnDestroy", handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return um::forward_to<&cudnnSetStream>(cudnn, "cudnnSetStream", handle, stream);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  return um::forward_to<&cudnnBackendCreateDescriptor>(cudnn, "cudnnBackendCreateDescriptor", type, made);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return um::forward_to<&cudnnBackendDestroyDescriptor>(cudnn, "cudnnBackendDestroyDescriptor", descriptor);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return um::forward_to<&cudnnBackendFinalize>(cudnn, "cudnnBackendFinalize", descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  return um::forward_to<&cudnnBackendSetAttribute>(cudnn, "cudnnBackendSetAttribute", descriptor, name, type,
                                                   count, elements);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t wanted, int64_t* count, void* elements) {
  return um::forward_to<&cudnnBackendGetAttribute>(cudnn, "cudnnBackendGetAttribute", descriptor, name, type,
                                                   wanted, count, elements);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variants) {
  return um::forward_to<&cudnnBackendExecute>(cudnn, "cudnnBackendExecute", handle, plan, variants);
}
