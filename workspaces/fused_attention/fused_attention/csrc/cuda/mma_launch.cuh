// The tensor-core kernel of one type: what each architecture compiles, and the choice for a LaunchPlan.
#pragma once

#include <type_traits>

#include "launch.h"
#include "mma_kernel.cuh"

namespace fused_attention {

#ifdef __CUDA_ARCH__
constexpr int kArchitecture = __CUDA_ARCH__;
#else
constexpr int kArchitecture = 0;  // the host pass
#endif

// The first architecture whose tensor cores multiply a type, float32 as TF32.
template <class T>
constexpr int kProductsSince = std::is_same<T, Float16>::value ? 700 : 800;

// The kernels that plan_attention may request; one that an architecture does not use compiles to an empty kernel.
template <class T, int D, int kWarpRows, bool kByElement>
struct IsCompiled {
  static constexpr bool kQuadPairs = kArchitecture < 750;
  static constexpr bool value =
      kArchitecture >= kProductsSince<T> && D * sizeof(T) <= 512 && (!kQuadPairs || (kWarpRows == 32 && !kByElement));
};

template <bool kQuadPairs, class T>
struct ChooseFragments {
  using Type = RowFragments<T, (kArchitecture >= 800)>;
};

template <>
struct ChooseFragments<false, float> {
  using Type = Tf32Fragments;
};

template <class T>
struct ChooseFragments<true, T> {
  using Type = QuadPairFragments;
};

template <bool kCompiled>
struct Attend {
  template <class T, int D, int kWarpRows, bool kByElement>
  __device__ static void run(const Call& call, const void* shared) {
    using F = typename ChooseFragments<(kArchitecture < 750), T>::Type;
    attend_tile<F, T, D, kWarpRows, kByElement>(call, shared_offset(shared));
  }
};

template <>
struct Attend<false> {
  template <class T, int D, int kWarpRows, bool kByElement>
  __device__ static void run(const Call&, const void*) {}
};

template <class T, int D, int kWarpRows, bool kByElement>
__global__ void __launch_bounds__(kThreads) attend_mma_kernel(const Call call) {
  extern __shared__ __align__(1024) unsigned char mma_shared[];
  Attend<IsCompiled<T, D, kWarpRows, kByElement>::value>::template run<T, D, kWarpRows, kByElement>(call, mma_shared);
}

template <class T, int D, int kWarpRows, bool kByElement>
cudaError_t launch_mma(const Call& call, cudaStream_t stream) {
  constexpr int kBytes = MmaShape<T, D, kWarpRows>::kSharedBytes;
  const auto kernel = attend_mma_kernel<T, D, kWarpRows, kByElement>;
  if (kBytes > 48 * 1024) {
    // Without a request, a block gets 48 KB on every GPU.
    const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (allowed != cudaSuccess) return allowed;
  }
  kernel<<<static_cast<unsigned>(piece_count(call)), kThreads, kBytes, stream>>>(call);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_mma(const Call& call, const LaunchPlan& plan, cudaStream_t stream) {
  if (plan.by_element) {
    if (plan.dims == 64) return launch_mma<T, 64, 16, true>(call, stream);
    if (plan.dims == 128) return launch_mma<T, 128, 16, true>(call, stream);
    return launch_mma<T, 256, 16, true>(call, stream);
  }
  if (plan.warp_rows == 32) {
    return plan.dims == 64 ? launch_mma<T, 64, 32, false>(call, stream) : launch_mma<T, 128, 32, false>(call, stream);
  }
  if (plan.dims == 64) return launch_mma<T, 64, 16, false>(call, stream);
  if (plan.dims == 128) return launch_mma<T, 128, 16, false>(call, stream);
  return launch_mma<T, 256, 16, false>(call, stream);
}

}  // namespace fused_attention
