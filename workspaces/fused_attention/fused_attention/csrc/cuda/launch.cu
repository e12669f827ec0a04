// Includes no torch header, so that nvcc meets only what every toolkit from 10.2 to 13 can compile.
#include "kernel.cuh"
#include "launch.h"

namespace fused_attention {

namespace {

constexpr int64_t kMaxGrid = 2147483647;

template <class T, int D>
cudaError_t launch(const AttentionParams& params, cudaStream_t stream) {
  const int64_t pieces = params.batch * params.heads * block_count<D>(params);
  const unsigned grid = static_cast<unsigned>(pieces < kMaxGrid ? pieces : kMaxGrid);
  attend_kernel<T, D><<<grid, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch(const AttentionParams& params, cudaStream_t stream) {
  if (params.head_dim <= 32) return launch<T, 32>(params, stream);
  if (params.head_dim <= 64) return launch<T, 64>(params, stream);
  if (params.head_dim <= 128) return launch<T, 128>(params, stream);
  return launch<T, 256>(params, stream);
}

}  // namespace

cudaError_t launch_attention(const AttentionParams& params, cudaStream_t stream) {
  switch (params.dtype) {
    case DataType::kFloat32: return launch<float>(params, stream);
    case DataType::kBFloat16: return launch<BFloat16>(params, stream);
    case DataType::kFloat16: return launch<Float16>(params, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace fused_attention
