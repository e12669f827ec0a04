// The kernels of the gradients of one type.
#pragma once

#include "gradient.cuh"
#include "launch.h"
#include "mma_launch.cuh"

namespace fused_attention {

// An architecture without these products compiles empty kernels.
template <bool kCompiled>
struct Differentiate {
  template <class T, int D, bool kBias>
  __device__ static void rows(const GradientCall& call, const void* shared) {
    differentiate_rows<RowFragments<T, (kArchitecture >= 800)>, T, D, kBias>(call, shared_offset(shared));
  }
  template <class T, int D, bool kBias>
  __device__ static void keys(const GradientCall& call, const void* shared) {
    differentiate_keys<RowFragments<T, (kArchitecture >= 800)>, T, D, kBias>(call, shared_offset(shared));
  }
};

template <>
struct Differentiate<false> {
  template <class T, int D, bool kBias>
  __device__ static void rows(const GradientCall&, const void*) {}
  template <class T, int D, bool kBias>
  __device__ static void keys(const GradientCall&, const void*) {}
};

template <class T>
struct HasGradients {
  static constexpr bool value = kArchitecture >= kProductsSince<T> && kArchitecture >= 750;
};

template <class T>
__global__ void __launch_bounds__(kThreads) sum_products_kernel(const GradientCall call) {
  sum_products<T>(call);
}

template <class T, int D, bool kBias>
__global__ void __launch_bounds__(kThreads) differentiate_rows_kernel(const GradientCall call) {
  extern __shared__ __align__(1024) unsigned char mma_shared[];
  Differentiate<HasGradients<T>::value>::template rows<T, D, kBias>(call, mma_shared);
}

template <class T, int D, bool kBias>
__global__ void __launch_bounds__(kThreads) differentiate_keys_kernel(const GradientCall call) {
  extern __shared__ __align__(1024) unsigned char mma_shared[];
  Differentiate<HasGradients<T>::value>::template keys<T, D, kBias>(call, mma_shared);
}

template <class T, int D, bool kBias>
cudaError_t launch_gradients(const GradientCall& c, cudaStream_t stream) {
  constexpr int kBytes = GradientShape<D>::kSharedBytes;
  const AttentionParams& p = c.call.p;
  const auto queue = [&](void (*kernel)(GradientCall), int64_t blocks) {
    if (kBytes > 48 * 1024) {
      const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      if (allowed != cudaSuccess) return allowed;
    }
    kernel<<<static_cast<unsigned>(blocks), kThreads, kBytes, stream>>>(c);
    return cudaGetLastError();
  };
  const int64_t rows = p.batch * p.heads * p.q_len;
  sum_products_kernel<T><<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), kThreads, 0, stream>>>(c);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess && c.g.dq != nullptr) error = queue(differentiate_rows_kernel<T, D, kBias>, piece_count(c.call));
  if (error == cudaSuccess && (c.g.dk != nullptr || c.g.dv != nullptr)) {
    error = queue(differentiate_keys_kernel<T, D, kBias>, key_piece_count(p));
  }
  return error;
}

template <class T>
cudaError_t launch_gradients(const GradientCall& c, cudaStream_t stream) {
  const bool has_bias = c.call.p.mask.is_additive() || c.call.p.alibi != nullptr;
  if (c.call.p.head_dim <= 64) {
    return has_bias ? launch_gradients<T, 64, true>(c, stream) : launch_gradients<T, 64, false>(c, stream);
  }
  return has_bias ? launch_gradients<T, 128, true>(c, stream) : launch_gradients<T, 128, false>(c, stream);
}

}  // namespace fused_attention
