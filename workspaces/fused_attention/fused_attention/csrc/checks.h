#pragma once

#include "ops.h"

namespace fused_attention {

// Raises TypeError, ValueError or RuntimeError that names the argument, what it is and what is allowed.
// Does not check the values of cu_seqlens, which may be on a GPU.
template <class Sizes>
void check_arguments(const Arguments& arguments);

// The values of one cu_seqlens, [0, ..., total], in the host's memory. `max_seqlen` zero: not given.
// Returns the largest length. Raises ValueError.
int64_t check_offsets(const char* name, const int32_t* offsets, int64_t sequences, int64_t total,
                      const char* max_name, int64_t max_seqlen);

// The values of a structured mask for calls of these lengths. Raises ValueError.
void check_structure_fits(const at::Tensor& structure, int64_t batch, int64_t q_len, int64_t k_len);

// What the backward pass is given: the gradient of the result and, unless none, the result and its log-sum-exps.
template <class Sizes>
void check_backward(const at::Tensor& grad, const Optional<at::Tensor>& out, const Optional<at::Tensor>& lse,
                    const at::Tensor& q);

// Raises RuntimeError if an argument has a forward-mode tangent.
void check_no_forward_gradient(const Arguments& arguments);

}  // namespace fused_attention
