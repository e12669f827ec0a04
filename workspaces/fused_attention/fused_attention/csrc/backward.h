#pragma once

#include <array>
#include <tuple>

#include "ops.h"

namespace fused_attention {

// Of q, k, v, an additive mask and alibi_slopes: which gradients are asked for.
enum WantedIndex { kWantQuery, kWantKey, kWantValue, kWantMask, kWantSlopes, kWantCount };
using Wanted = std::array<bool, kWantCount>;
// In the same order; empty where not asked for.
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// The gradients of a call from `grad`, that of its result. Checked arguments, any device; reads cu_seqlens on the host.
Gradients attention_backward(const at::Tensor& grad, const Arguments& arguments, Wanted wanted);

}  // namespace fused_attention
