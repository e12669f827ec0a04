#pragma once

#include "compat.h"

namespace fused_attention {

// Raises TypeError, ValueError or RuntimeError that names the argument, what it is and what is allowed.
void check_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Optional<at::Tensor>& mask,
                  const Optional<double>& scale);

// Raises RuntimeError where a gradient would be asked for: this version computes the forward pass only.
void check_no_gradient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const Optional<at::Tensor>& mask);

}  // namespace fused_attention
