// The operator fused_attention::forward: its schema and what every device shares.
#include "ops.h"

#include <torch/library.h>

#include <cmath>

#include "checks.h"

namespace fused_attention {

namespace {

at::Tensor with_contiguous_dim(const at::Tensor& t) {
  return size_of(t, 3) == 1 || stride_of(t, 3) == 1 ? t : t.contiguous();
}

// The memory order of q, so that a caller's [batch, seq, heads, dim] behind a transpose comes back as such.
at::Tensor allocate_out(const at::Tensor& q) {
  const auto out = at::empty_like(q);
  return size_of(q, 3) == 1 || stride_of(out, 3) == 1 ? out : empty_contiguous(q);
}

Strides strides_of(const at::Tensor& t) {
  return Strides{t.stride(0), t.stride(1), t.stride(2)};
}

DataType data_type(at::ScalarType type) {
  return type == at::kFloat ? DataType::kFloat32 : type == at::kHalf ? DataType::kFloat16 : DataType::kBFloat16;
}

MaskKind mask_kind(at::ScalarType type) {
  switch (type) {
    case at::kBool: return MaskKind::kBool;
    case at::kHalf: return MaskKind::kFloat16;
    case at::kBFloat16: return MaskKind::kBFloat16;
    default: return MaskKind::kFloat32;
  }
}

at::Tensor forward_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const Optional<at::Tensor>& mask, bool, Optional<double> scale) {
  check_inputs(q, k, v, mask, scale);
  return allocate_out(with_contiguous_dim(q));
}

// Without this, autograd would hand out a result that is silently cut off from its inputs.
at::Tensor forward_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const Optional<at::Tensor>& mask, bool is_causal, Optional<double> scale) {
  check_no_gradient(q, k, v, mask);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fused_attention::forward", "")
                             .typed<decltype(forward_autograd)>();
  BelowAutograd guard;
  return op.call(q, k, v, mask, is_causal, scale);
}

}  // namespace

at::Tensor forward_with(Launch launch, const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                        const Optional<at::Tensor>& mask_in, bool is_causal, Optional<double> scale) {
  check_inputs(q_in, k_in, v_in, mask_in, scale);
  const auto q = with_contiguous_dim(q_in), k = with_contiguous_dim(k_in), v = with_contiguous_dim(v_in);
  auto out = allocate_out(q);
  if (out.numel() == 0) return out;
  if (k.size(2) == 0) return out.zero_();

  AttentionParams params{};
  params.q = q.data_ptr();
  params.k = k.data_ptr();
  params.v = v.data_ptr();
  params.out = out.data_ptr();
  params.q_strides = strides_of(q);
  params.k_strides = strides_of(k);
  params.v_strides = strides_of(v);
  params.out_strides = strides_of(out);
  params.batch = q.size(0);
  params.heads = q.size(1);
  params.kv_heads = k.size(1);
  params.q_len = q.size(2);
  params.k_len = k.size(2);
  params.head_dim = static_cast<int>(q.size(3));
  params.scale = static_cast<float>(scale.has_value() ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(3))));
  params.dtype = data_type(q.scalar_type());
  params.mask.causal = is_causal;
  params.mask.kind = MaskKind::kNone;
  if (mask_in.has_value()) {
    const auto mask = mask_in->expand({params.batch, params.heads, params.q_len, params.k_len});
    params.mask.data = mask.data_ptr();
    params.mask.kind = mask_kind(mask.scalar_type());
    params.mask.batch_stride = mask.stride(0);
    params.mask.head_stride = mask.stride(1);
    params.mask.row_stride = mask.stride(2);
    params.mask.key_stride = mask.stride(3);
  }
  launch(params, q.device());
  return out;
}

}  // namespace fused_attention

TORCH_LIBRARY(fused_attention, m) {
  const char* schema =
      "forward(Tensor q, Tensor k, Tensor v, Tensor? mask=None, bool is_causal=False, float? scale=None) -> Tensor";
#if FUSED_ATTENTION_TORCH >= 202
  m.def(schema, {at::Tag::pt2_compliant_tag});
#else
  m.def(schema);
#endif
}

TORCH_LIBRARY_IMPL(fused_attention, Autograd, m) {
  m.impl("forward", fused_attention::forward_autograd);
}

// Older torch traces nothing by meta tensors.
#if FUSED_ATTENTION_TORCH >= 200
TORCH_LIBRARY_IMPL(fused_attention, Meta, m) {
  m.impl("forward", fused_attention::forward_meta);
}
#endif
