// The CUDA-core kernel: for float32, and for what the tensor cores of an architecture do not multiply.
#include <type_traits>

#include "launch.h"
#include "simt_kernel.cuh"

namespace fused_attention {

namespace {

#ifdef __CUDA_ARCH__
constexpr int kArchitecture = __CUDA_ARCH__;
#else
constexpr int kArchitecture = 0;
#endif

// The first architecture on which plan_attention requests no kernel of a type.
template <class T>
constexpr int kUntil = sizeof(T) == 4 ? 1 << 20 : std::is_same<T, Float16>::value ? 750 : 800;

template <bool kCompiled>
struct Attend {
  template <class T, int D>
  __device__ static void run(const Call& call) {
    attend_tile_simt<T, D>(call);
  }
};

template <>
struct Attend<false> {
  template <class T, int D>
  __device__ static void run(const Call&) {}
};

template <class T, int D>
__global__ void __launch_bounds__(kSimtThreads) attend_simt_kernel(const Call call) {
  Attend<(kArchitecture < kUntil<T>)>::template run<T, D>(call);
}

template <class T, int D>
cudaError_t launch(const Call& call, cudaStream_t stream) {
  attend_simt_kernel<T, D><<<static_cast<unsigned>(piece_count(call)), kSimtThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch(const Call& call, const LaunchPlan& plan, cudaStream_t stream) {
  if (plan.dims == 64) return launch<T, 64>(call, stream);
  return plan.dims == 128 ? launch<T, 128>(call, stream) : launch<T, 256>(call, stream);
}

}  // namespace

cudaError_t launch_simt(const Call& call, const LaunchPlan& plan, cudaStream_t stream) {
  switch (call.p.dtype) {
    case DataType::kFloat32: return launch<float>(call, plan, stream);
    case DataType::kBFloat16: return launch<BFloat16>(call, plan, stream);
    case DataType::kFloat16: return launch<Float16>(call, plan, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace fused_attention
