// The operator fused_attention::forward: its schema and what every device shares.
#include "ops.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cmath>

#include "checks.h"

namespace fused_attention {

namespace {

template <class Sizes>
at::Tensor with_contiguous_dim(const at::Tensor& t) {
  return Sizes::size(t, 3) == 1 || Sizes::stride(t, 3) == 1 ? t : t.contiguous();
}

// The memory order of q, so that a caller's [batch, seq, heads, dim] behind a transpose comes back as such.
template <class Sizes>
at::Tensor allocate_out(const at::Tensor& q) {
  const auto out = at::empty_like(q);
  return Sizes::size(q, 3) == 1 || Sizes::stride(out, 3) == 1 ? out : Sizes::empty_contiguous(q);
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

void set_mask(AttentionParams& params, const Arguments& a) {
  params.mask.causal = a.is_causal;
  params.mask.kind = MaskKind::kNone;
  if (!a.mask.has_value()) return;
  const auto mask = a.mask->expand({params.batch, params.heads, params.q_len, params.k_len});
  params.mask.data = mask.data_ptr();
  params.mask.kind = mask_kind(mask.scalar_type());
  params.mask.batch_stride = mask.stride(0);
  params.mask.head_stride = mask.stride(1);
  params.mask.row_stride = mask.stride(2);
  params.mask.key_stride = mask.stride(3);
}

// One cu_seqlens, checked by value where the host can read it without waiting: on the CPU, and where the longest
// sequence must be found. Returns the bound of the lengths.
int64_t longest_sequence(const char* name, const at::Tensor& offsets, int64_t total, const char* max_name,
                         int64_t max_seqlen) {
  if (max_seqlen && !offsets.device().is_cpu()) return max_seqlen;
  const auto host = offsets.device().is_cpu() ? offsets : offsets.cpu();
  const auto longest = check_offsets(name, host.data_ptr<int32_t>(), host.size(0) - 1, total, max_name, max_seqlen);
  return max_seqlen ? max_seqlen : longest;
}

// What a kernel points into besides q, k, v and mask, in the layout that it needs.
struct Tables {
  at::Tensor cu_seqlens_q, cu_seqlens_k, structure, alibi_slopes;

  explicit Tables(const Arguments& a) {
    if (a.is_packed()) {
      cu_seqlens_q = a.cu_seqlens_q->contiguous();
      cu_seqlens_k = a.cu_seqlens_k.has_value() ? a.cu_seqlens_k->contiguous() : cu_seqlens_q;
    }
    if (a.structure.has_value()) structure = a.structure->contiguous();
    if (a.alibi_slopes.has_value()) alibi_slopes = a.alibi_slopes->contiguous();
  }
};

void set_packed(AttentionParams& params, const Arguments& a, const Tables& tables) {
  const bool same = !a.cu_seqlens_k.has_value();
  params.batch = tables.cu_seqlens_q.size(0) - 1;
  params.q_len = longest_sequence("cu_seqlens", tables.cu_seqlens_q, params.q_len, "max_seqlen", a.max_seqlen_q);
  params.k_len = same && (!a.max_seqlen_k || a.max_seqlen_k == a.max_seqlen_q)
                     ? params.q_len
                     : longest_sequence(same ? "cu_seqlens" : "cu_seqlens_k", tables.cu_seqlens_k, params.k_len,
                                        "max_seqlen_k", a.max_seqlen_k);
  params.cu_q = tables.cu_seqlens_q.data_ptr<int32_t>();
  params.cu_k = tables.cu_seqlens_k.data_ptr<int32_t>();
  params.q_strides.batch = params.k_strides.batch = params.v_strides.batch = params.out_strides.batch = 0;
}

#if FUSED_ATTENTION_TORCH >= 200
at::Tensor forward_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Optional<at::Tensor>& mask,
                        const Optional<at::Tensor>& structure, const Optional<at::Tensor>& alibi_slopes,
                        const Optional<at::Tensor>& cu_seqlens_q, const Optional<at::Tensor>& cu_seqlens_k,
                        int64_t max_seqlen_q, int64_t max_seqlen_k, bool is_causal, Optional<double> scale) {
  check_arguments<SymbolicSizes>(Arguments{q, k, v, mask, structure, alibi_slopes, cu_seqlens_q, cu_seqlens_k,
                                           max_seqlen_q, max_seqlen_k, is_causal, scale});
  return allocate_out<SymbolicSizes>(with_contiguous_dim<SymbolicSizes>(q));
}
#endif

// Without this, autograd would hand out a result that is silently cut off from its inputs.
at::Tensor forward_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const Optional<at::Tensor>& mask, const Optional<at::Tensor>& structure,
                            const Optional<at::Tensor>& alibi_slopes, const Optional<at::Tensor>& cu_seqlens_q,
                            const Optional<at::Tensor>& cu_seqlens_k, int64_t max_seqlen_q, int64_t max_seqlen_k,
                            bool is_causal, Optional<double> scale) {
  check_no_gradient(Arguments{q, k, v, mask, structure, alibi_slopes, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
                              max_seqlen_k, is_causal, scale});
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fused_attention::forward", "")
                             .typed<decltype(forward_autograd)>();
  BelowAutograd guard;
  return op.call(q, k, v, mask, structure, alibi_slopes, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                 is_causal, scale);
}

}  // namespace

at::Tensor forward_with(Launch launch, const Arguments& a) {
  check_arguments<PlainSizes>(a);
  const auto q = with_contiguous_dim<PlainSizes>(a.q), k = with_contiguous_dim<PlainSizes>(a.k),
             v = with_contiguous_dim<PlainSizes>(a.v);
  auto out = allocate_out<PlainSizes>(q);

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
  params.q_rows = q.size(2);
  params.k_rows = k.size(2);
  params.head_dim = static_cast<int>(q.size(3));
  params.scale = static_cast<float>(a.scale.has_value() ? *a.scale : 1.0 / std::sqrt(static_cast<double>(q.size(3))));
  params.dtype = data_type(q.scalar_type());
  const Tables tables(a);
  if (a.is_packed()) set_packed(params, a, tables);
  if (a.structure.has_value()) params.structure = Structure{tables.structure.data_ptr<int64_t>(), tables.structure.numel()};
  if (a.alibi_slopes.has_value()) params.alibi = tables.alibi_slopes.data_ptr<float>();
  set_mask(params, a);
  if (out.numel() == 0) return out;
  if (k.size(2) == 0 || params.batch == 0) return out.zero_();
  launch(params, q.device());
  return out;
}

}  // namespace fused_attention

TORCH_LIBRARY(fused_attention, m) {
  const char* schema =
      "forward(Tensor q, Tensor k, Tensor v, Tensor? mask=None, Tensor? structure=None, Tensor? alibi_slopes=None, "
      "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, int max_seqlen_q=0, int max_seqlen_k=0, "
      "bool is_causal=False, float? scale=None) -> Tensor";
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
