#pragma once

#include "compat.h"
#include "params.h"

// The operator's signature after the schema's, and the names alone: what a new argument is added to, with Arguments.
#define FA_FORWARD_PARAMETERS                                                                                      \
  const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const fused_attention::Optional<at::Tensor>&mask, \
      const fused_attention::Optional<at::Tensor>&structure,                                                      \
      const fused_attention::Optional<at::Tensor>&alibi_slopes,                                                    \
      const fused_attention::Optional<at::Tensor>&cu_seqlens_q,                                                    \
      const fused_attention::Optional<at::Tensor>&cu_seqlens_k, int64_t max_seqlen_q, int64_t max_seqlen_k,        \
      bool is_causal, fused_attention::Optional<double> scale
#define FA_FORWARD_NAMES                                                                                     \
  q, k, v, mask, structure, alibi_slopes, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, is_causal, \
      scale

// A trace by meta tensors wants all of a call's tensors on one device, and a structured mask is on the CPU, wherever q
// is. So what a trace runs is registered in Python (fakes.py), drops that tensor, and calls these operators' meta kernels.
#if FUSED_ATTENTION_TORCH >= 204
#define FA_HAS_FAKES
#define FA_META_OF(name) name "_fake"
#else
#define FA_META_OF(name) name
#endif

namespace fused_attention {

// One call of fused_attention::forward, in the order of its schema.
struct Arguments {
  const at::Tensor &q, &k, &v;
  const Optional<at::Tensor>&mask, &structure, &alibi_slopes, &cu_seqlens_q, &cu_seqlens_k;
  int64_t max_seqlen_q, max_seqlen_k;  // zero: not given
  bool is_causal;
  Optional<double> scale;

  bool is_packed() const { return cu_seqlens_q.has_value(); }
};

using Launch = void (*)(const AttentionParams& params, at::Device device);

// The operator on one device: checks, allocates the output, and launches where there is something to compute.
at::Tensor forward_with(Launch launch, const Arguments& arguments);

// forward_with(launch) under the operator's signature, to be registered for a device.
template <Launch launch>
at::Tensor forward_on(FA_FORWARD_PARAMETERS) {
  return forward_with(launch, Arguments{FA_FORWARD_NAMES});
}

}  // namespace fused_attention
