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

// The gradients of a call, from the gradient `grad` of its result. The arguments must be checked; any device. Reads
// cu_seqlens on the host.
Gradients attention_backward(const at::Tensor& grad, const Arguments& arguments, Wanted wanted);

}  // namespace fused_attention
