// The operator fused_attention::forward: its schema, and the part that all devices share.
#include "ops.h"

#include <torch/library.h>

#include <cmath>
#include <string>

#include "checks.h"

namespace fused_attention {

namespace {

template <class Sizes>
at::Tensor with_contiguous_dim(const at::Tensor& t) {
  return Sizes::size(t, 3) == 1 || Sizes::stride(t, 3) == 1 ? t : t.contiguous();
}

// In the memory order of q: a transposed view of [batch, seq, heads, dim] gives a result with that layout.
template <class Sizes>
at::Tensor allocate_out(const at::Tensor& q) {
  const auto out = Sizes::empty_like(q);
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
  const at::Tensor& mask = *a.mask;
  params.mask.data = mask.data_ptr();
  params.mask.kind = mask_kind(mask.scalar_type());
  int64_t* const strides[] = {&params.mask.batch_stride, &params.mask.head_stride, &params.mask.row_stride,
                              &params.mask.key_stride};
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t dim = i - 4 + mask.dim();
    *strides[i] = dim < 0 || mask.sizes()[dim] == 1 ? 0 : mask.strides()[dim];
  }
}

// Returns a bound of the lengths of one cu_seqlens. Checks its values if it is on the CPU, or if the longest sequence
// must be found, which waits for a GPU.
int64_t longest_sequence(const char* name, const at::Tensor& offsets, int64_t total, const char* max_name,
                         int64_t max_seqlen) {
  if (max_seqlen && !offsets.device().is_cpu()) return max_seqlen;
  const auto host = offsets.device().is_cpu() ? offsets : offsets.cpu();
  const auto longest = check_offsets(name, host.data_ptr<int32_t>(), host.size(0) - 1, total, max_name, max_seqlen);
  return max_seqlen ? max_seqlen : longest;
}

// The other tensors that a kernel reads, contiguous.
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
at::Tensor forward_meta(FA_FORWARD_PARAMETERS) {
  check_arguments<SymbolicSizes>(Arguments{FA_FORWARD_NAMES});
  return allocate_out<SymbolicSizes>(with_contiguous_dim<SymbolicSizes>(q));
}
#endif

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
  if (a.structure.has_value()) {
    check_structure_fits(tables.structure, params.batch, params.q_len, params.k_len);
    params.structure = Structure{tables.structure.data_ptr<int64_t>(), tables.structure.size(0)};
  }
  if (a.alibi_slopes.has_value()) params.alibi = tables.alibi_slopes.data_ptr<float>();
  set_mask(params, a);
  if (out.numel() == 0) return out;
  if (k.size(2) == 0 || params.batch == 0) return out.zero_();
  launch(params, q.device());
  return out;
}

}  // namespace fused_attention

// From 2.2 on, a tag says that the operators keep the rules of torch.compile.
TORCH_LIBRARY(fused_attention, m) {
#define FA_SCHEMA(kind, name) fused_attention::kind::schema(#name)
#define FA_SCHEMA_COMMA() +", " +
  const std::string forward = FA_ARGUMENTS(FA_SCHEMA, FA_SCHEMA_COMMA);
  const auto define = [&m](const std::string& schema) {
#if FUSED_ATTENTION_TORCH >= 202
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
#else
    m.def(schema.c_str());
#endif
  };
  // wanted: the gradients to compute, in the order of the result; the others are returned empty.
  const std::string backward = "Tensor grad, bool[5] wanted, " + forward;
  const std::string gradients = "(Tensor q, Tensor k, Tensor v, Tensor mask, Tensor alibi_slopes)";
  define("forward(" + forward + ") -> Tensor");
  define("backward(" + backward + ") -> " + gradients);
#ifdef FA_HAS_FAKES
  define("forward_fake(" + forward + ") -> Tensor");
  define("backward_fake(" + backward + ") -> " + gradients);
#endif
}

// Older torch does not trace with meta tensors.
#if FUSED_ATTENTION_TORCH >= 200
TORCH_LIBRARY_IMPL(fused_attention, Meta, m) {
  m.impl(FA_META_OF("forward"), fused_attention::forward_meta);
}
#endif
