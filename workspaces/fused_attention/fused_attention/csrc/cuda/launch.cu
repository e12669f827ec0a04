// Includes no torch header: nvcc from 10.2 to 13 must compile it.
#include "launch.h"

#include "classify.cuh"

namespace fused_attention {

namespace {

constexpr int64_t kMaxGrid = 2147483647;

__global__ void __launch_bounds__(kClassifyThreads) classify_kernel(const Classification classification) {
  classify_list(classification);
}

}  // namespace

cudaError_t describe_device(DeviceTraits* traits) {
  int device = 0, major = 0, minor = 0, l2_bytes = 0;
  cudaFuncAttributes attributes;
  cudaError_t error = cudaGetDevice(&device);
  // The architecture of the code that the driver has chosen: an older PTX may run on a newer GPU.
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, classify_kernel);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&traits->multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device);
  if (error != cudaSuccess) return error;
  traits->capability = major * 10 + minor;
  traits->architecture = attributes.ptxVersion;
  traits->l2_bytes = l2_bytes;
  return cudaSuccess;
}

cudaError_t launch_classification(const Classification& classification, cudaStream_t stream) {
  if (classification.lists() * classification.capacity > kMaxGrid) return cudaErrorInvalidConfiguration;
  classify_kernel<<<static_cast<unsigned>(classification.lists()), kClassifyThreads, 0, stream>>>(classification);
  return cudaGetLastError();
}

cudaError_t launch_attention(const Call& call, const LaunchPlan& plan, cudaStream_t stream) {
  if (piece_count(call) == 0) return cudaSuccess;  // all sequences are empty, and a grid may not be
  if (piece_count(call) > kMaxGrid) return cudaErrorInvalidConfiguration;
  if (!plan.tensor_cores) return launch_simt(call, plan, stream);
  switch (call.p.dtype) {
    case DataType::kFloat32: return launch_float32(call, plan, stream);
    case DataType::kBFloat16: return launch_bfloat16(call, plan, stream);
    case DataType::kFloat16: return launch_float16(call, plan, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t launch_gradients(const GradientCall& c, cudaStream_t stream) {
  const AttentionParams& p = c.call.p;
  if (p.batch * p.heads * p.q_len > kMaxGrid || key_piece_count(p) > kMaxGrid) return cudaErrorInvalidConfiguration;
  return p.dtype == DataType::kBFloat16 ? launch_gradients_bfloat16(c, stream) : launch_gradients_float16(c, stream);
}

}  // namespace fused_attention
