#pragma once

#include <array>
#include <tuple>

#include "ops.h"

namespace fused_attention {

// Which gradients are required: of q, k, v, an additive mask and alibi_slopes.
enum WantedIndex { kWantQuery, kWantKey, kWantValue, kWantMask, kWantSlopes, kWantCount };
using Wanted = std::array<bool, kWantCount>;
// In the same order; those not required are empty.
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

#define FA_BACKWARD_PARAMETERS                                                                     \
  const at::Tensor &grad, fused_attention::Wanted wanted, const fused_attention::Optional<at::Tensor>&out, \
      const fused_attention::Optional<at::Tensor>&lse, FA_FORWARD_PARAMETERS

// Returns false if the device has no kernel for the call.
using LaunchGradients = bool (*)(const AttentionParams& params, const GradientParams& gradients, at::Device device);

// The gradients of a call, from the gradient `grad` of its result. Without `out` and `lse`, computes them first. Those
// of a mask or of slopes, and those for which a device has no kernel, come from torch's matrix products.
Gradients backward_with(Launch forward, LaunchGradients launch, const at::Tensor& grad, Wanted wanted,
                        const Optional<at::Tensor>& out, const Optional<at::Tensor>& lse, const Arguments& arguments);

template <Launch forward, LaunchGradients launch>
Gradients backward_on(FA_BACKWARD_PARAMETERS) {
  return backward_with(forward, launch, grad, wanted, out, lse, Arguments{FA_FORWARD_NAMES});
}

}  // namespace fused_attention
