#pragma once

#include "compat.h"
#include "params.h"

namespace fused_attention {

// One call of fused_attention::forward, in the order of its schema: what a new argument is added to.
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
at::Tensor forward_on(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Optional<at::Tensor>& mask,
                      const Optional<at::Tensor>& structure, const Optional<at::Tensor>& alibi_slopes,
                      const Optional<at::Tensor>& cu_seqlens_q, const Optional<at::Tensor>& cu_seqlens_k,
                      int64_t max_seqlen_q, int64_t max_seqlen_k, bool is_causal, Optional<double> scale) {
  return forward_with(launch, Arguments{q, k, v, mask, structure, alibi_slopes, cu_seqlens_q, cu_seqlens_k,
                                        max_seqlen_q, max_seqlen_k, is_causal, scale});
}

}  // namespace fused_attention
