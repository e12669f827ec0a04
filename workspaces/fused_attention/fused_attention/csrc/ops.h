#pragma once

#include "compat.h"
#include "params.h"

namespace fused_attention {

using Launch = void (*)(const AttentionParams& params, at::Device device);

// The operator on one device: checks, allocates the output, and launches where there is something to compute.
at::Tensor forward_with(Launch launch, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const Optional<at::Tensor>& mask, bool is_causal, Optional<double> scale);

}  // namespace fused_attention
