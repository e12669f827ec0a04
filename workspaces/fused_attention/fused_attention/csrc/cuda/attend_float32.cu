#include "mma_launch.cuh"

namespace fused_attention {

cudaError_t launch_float32(const Call& call, const LaunchPlan& plan, cudaStream_t stream) {
  return launch_mma<float>(call, plan, stream);
}

}  // namespace fused_attention
