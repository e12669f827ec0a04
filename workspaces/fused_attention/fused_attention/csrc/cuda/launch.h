#pragma once

#include <cuda_runtime_api.h>

#include "../params.h"

namespace fused_attention {

// Queues the kernel on the current device. Returns what the launch answered; the work itself runs later.
cudaError_t launch_attention(const AttentionParams& params, cudaStream_t stream);

}  // namespace fused_attention
