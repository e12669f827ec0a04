#pragma once

#include <cuda_runtime_api.h>

#include "classification.h"
#include "gradient_call.h"
#include "plan.h"

namespace fused_attention {

// Of the current device.
cudaError_t describe_device(DeviceTraits* traits);

// These queue a kernel on the current device and return the launch's error code.
cudaError_t launch_classification(const Classification& classification, cudaStream_t stream);
cudaError_t launch_attention(const Call& call, const LaunchPlan& plan, cudaStream_t stream);

// Queues the three kernels of gradient.cuh.
cudaError_t launch_gradients(const GradientCall& call, cudaStream_t stream);

// The parts of these two, compiled one by one.
cudaError_t launch_simt(const Call& call, const LaunchPlan& plan, cudaStream_t stream);
cudaError_t launch_float32(const Call& call, const LaunchPlan& plan, cudaStream_t stream);
cudaError_t launch_float16(const Call& call, const LaunchPlan& plan, cudaStream_t stream);
cudaError_t launch_bfloat16(const Call& call, const LaunchPlan& plan, cudaStream_t stream);
cudaError_t launch_gradients_float16(const GradientCall& call, cudaStream_t stream);
cudaError_t launch_gradients_bfloat16(const GradientCall& call, cudaStream_t stream);

}  // namespace fused_attention
