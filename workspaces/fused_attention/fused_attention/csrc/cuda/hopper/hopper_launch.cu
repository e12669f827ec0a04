// Needs C++17 and CUTLASS's headers, so a build without CUTLASS compiles an empty file.
#ifdef FUSED_ATTENTION_HOPPER
#include "launch.h"

#include <cuda.h>

#include "kernel.h"
#include "plan.h"
// The first architectures have neither __grid_constant__ nor what CuTe needs; their kernel is empty (see below).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define __grid_constant__
#else
#include "machine.cuh"
#endif

namespace fused_attention {

namespace {

template <class T, int D>
__global__ void __launch_bounds__(hopper::kThreads, 1)
    hopper_kernel(const __grid_constant__ hopper::Call<CUtensorMap> call) {
  // wgmma and setmaxnreg exist on 9.0a alone. For other architectures the kernel is empty, and op.cpp never launches it.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  hopper::run_block<D, T, hopper::Machine>(call);
#endif
}

struct Encoder {
  decltype(&cuTensorMapEncodeTiled) function;
  cudaError_t error;  // of the search for it
};

// Finds the driver's function at run time: the library must load on machines without a driver.
Encoder find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
  cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
  if (error == cudaSuccess && found != cudaDriverEntryPointSuccess) error = cudaErrorSymbolNotFound;
  return Encoder{reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function), error};
}

template <class T, int D>
cudaError_t launch(const hopper::Call<CUtensorMap>& call, int blocks, cudaStream_t stream) {
  constexpr int kBytes = hopper::SharedMemory<D>::kBytes;
  const cudaError_t error =
      cudaFuncSetAttribute(hopper_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  hopper_kernel<T, D><<<blocks, hopper::kThreads, kBytes, stream>>>(call);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch(const hopper::Call<CUtensorMap>& call, int blocks, cudaStream_t stream) {
  return call.params.head_dim <= 64 ? launch<T, 64>(call, blocks, stream) : launch<T, 128>(call, blocks, stream);
}

}  // namespace

cudaError_t launch_hopper(const AttentionParams& params, const TileView& view, cudaStream_t stream) {
  static const Encoder encoder = find_encoder();
  cudaError_t error = encoder.error;
  int device = 0, processors = 0, cache = 0;
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device);
  if (error != cudaSuccess) return error;

  CUresult encoded = CUDA_SUCCESS;
  const auto encode = [&](const hopper::TensorMap& map) {
    CUtensorMap result;
    const cuuint32_t box[4] = {hopper::kPanel, hopper::kTileKeys, 1, 1}, steps[4] = {1, 1, 1, 1};
    const cuuint64_t sizes[4] = {map.sizes[0], map.sizes[1], map.sizes[2], map.sizes[3]};
    const cuuint64_t strides[3] = {map.strides[0], map.strides[1], map.strides[2]};
    const CUtensorMapDataType type = params.dtype == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                         : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const CUresult status = encoder.function(
        &result, type, 4, const_cast<void*>(map.base), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) encoded = status;
    return result;
  };
  // Half of the cache: an SM reads the other half through a slower link.
  const auto call = hopper::plan<CUtensorMap>(params, view, cache / 2, encode);
  if (encoded != CUDA_SUCCESS) return cudaErrorInvalidValue;
  const int blocks = call.pieces < processors ? call.pieces : processors;
  return params.dtype == DataType::kFloat16 ? launch<Float16>(call, blocks, stream)
                                            : launch<BFloat16>(call, blocks, stream);
}

}  // namespace fused_attention
#endif
