// The operator fused_attention::forward: its schema, and the part that all devices share.
#include "ops.h"

#include <torch/library.h>

#include <cmath>
#include <limits>
#include <string>

#include "checks.h"

namespace fused_attention {

namespace {

template <class Sizes>
at::Tensor contiguous_dim(const at::Tensor& t) {
  return Sizes::size(t, 3) == 1 || Sizes::stride(t, 3) == 1 ? t : t.contiguous();
}

// In the memory order of q: a transposed view of [batch, seq, heads, dim] gives a result with that layout.
template <class Sizes>
at::Tensor allocate_out(const at::Tensor& q) {
  const auto out = Sizes::empty_like(q);
  return Sizes::size(q, 3) == 1 || Sizes::stride(out, 3) == 1 ? out : Sizes::empty_contiguous(q);
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

// Returns a bound of the lengths of one cu_seqlens. Checks its values if it is on the CPU, or if the longest sequence
// must be found, which waits for a GPU.
int64_t longest_sequence(const char* name, const at::Tensor& offsets, int64_t total, const char* max_name,
                         int64_t max_seqlen) {
  if (max_seqlen && !offsets.device().is_cpu()) return max_seqlen;
  const auto host = offsets.device().is_cpu() ? offsets : offsets.cpu();
  const auto longest = check_offsets(name, host.data_ptr<int32_t>(), host.size(0) - 1, total, max_name, max_seqlen);
  return max_seqlen ? max_seqlen : longest;
}

#if FUSED_ATTENTION_TORCH >= 200
at::Tensor forward_meta(FA_FORWARD_PARAMETERS) {
  check_arguments<SymbolicSizes>(Arguments{FA_FORWARD_NAMES});
  return allocate_out<SymbolicSizes>(contiguous_dim<SymbolicSizes>(q));
}

std::tuple<at::Tensor, at::Tensor> forward_lse_meta(FA_FORWARD_PARAMETERS) {
  const auto out = forward_meta(FA_FORWARD_NAMES);
  const c10::SymInt sizes[3] = {out.sym_size(0), out.sym_size(1), out.sym_size(2)};
  return {out, at::empty_symint(c10::SymIntArrayRef(sizes, 3), out.options().dtype(at::kFloat))};
}
#endif

}  // namespace

Strides strides_of(const at::Tensor& t) {
  return Strides{t.stride(0), t.stride(1), t.stride(2)};
}

at::Tensor with_contiguous_dim(const at::Tensor& t) {
  return contiguous_dim<PlainSizes>(t);
}

at::Tensor allocate_like(const at::Tensor& t) {
  return allocate_out<PlainSizes>(t);
}

PreparedCall::PreparedCall(const Arguments& a) : q(with_contiguous_dim(a.q)), k(with_contiguous_dim(a.k)), v(with_contiguous_dim(a.v)) {
  params.q = q.data_ptr();
  params.k = k.data_ptr();
  params.v = v.data_ptr();
  params.q_strides = strides_of(q);
  params.k_strides = strides_of(k);
  params.v_strides = strides_of(v);
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
  if (a.is_packed()) set_packed(a);
  if (a.structure.has_value()) {
    structure = a.structure->contiguous();
    check_structure_fits(structure, params.batch, params.q_len, params.k_len);
    params.structure = Structure{structure.data_ptr<int64_t>(), structure.size(0)};
  }
  if (a.alibi_slopes.has_value()) {
    alibi_slopes = a.alibi_slopes->contiguous();
    params.alibi = alibi_slopes.data_ptr<float>();
  }
  set_mask(a);
}

void PreparedCall::set_mask(const Arguments& a) {
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

void PreparedCall::set_packed(const Arguments& a) {
  const bool same = !a.cu_seqlens_k.has_value();
  cu_seqlens_q = a.cu_seqlens_q->contiguous();
  cu_seqlens_k = same ? cu_seqlens_q : a.cu_seqlens_k->contiguous();
  params.batch = cu_seqlens_q.size(0) - 1;
  params.q_len = longest_sequence("cu_seqlens", cu_seqlens_q, params.q_len, "max_seqlen", a.max_seqlen_q);
  params.k_len = same && (!a.max_seqlen_k || a.max_seqlen_k == a.max_seqlen_q)
                     ? params.q_len
                     : longest_sequence(same ? "cu_seqlens" : "cu_seqlens_k", cu_seqlens_k, params.k_len,
                                        "max_seqlen_k", a.max_seqlen_k);
  params.cu_q = cu_seqlens_q.data_ptr<int32_t>();
  params.cu_k = cu_seqlens_k.data_ptr<int32_t>();
  params.q_strides.batch = params.k_strides.batch = params.v_strides.batch = 0;
}

at::Tensor forward_with(Launch launch, const Arguments& a, at::Tensor* lse) {
  check_arguments<PlainSizes>(a);
  PreparedCall call(a);
  AttentionParams& params = call.params;
  auto out = allocate_like(call.q);
  params.out = out.data_ptr();
  params.out_strides = strides_of(out);
  if (a.is_packed()) params.out_strides.batch = 0;
  if (lse) {
    *lse = at::empty({out.size(0), out.size(1), out.size(2)}, out.options().dtype(at::kFloat));
    params.lse = lse->data_ptr<float>();
  }
  if (out.numel() == 0) return out;
  if (call.k.size(2) == 0 || params.batch == 0) {
    if (lse) lse->fill_(std::numeric_limits<float>::infinity());
    return out.zero_();
  }
  launch(params, call.q.device());
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
  // wanted: the gradients to compute, in the order of the result; the others are returned empty. out and lse: the
  // results of forward_lse, which spare a second forward pass.
  const std::string backward = "Tensor grad, bool[5] wanted, Tensor? out, Tensor? lse, " + forward;
  const std::string gradients = "(Tensor q, Tensor k, Tensor v, Tensor mask, Tensor alibi_slopes)";
  define("forward(" + forward + ") -> Tensor");
  define("forward_lse(" + forward + ") -> (Tensor out, Tensor lse)");
  define("backward(" + backward + ") -> " + gradients);
#ifdef FA_HAS_FAKES
  define("forward_fake(" + forward + ") -> Tensor");
  define("forward_lse_fake(" + forward + ") -> (Tensor out, Tensor lse)");
  define("backward_fake(" + backward + ") -> " + gradients);
#endif
}

// Older torch does not trace with meta tensors.
#if FUSED_ATTENTION_TORCH >= 200
TORCH_LIBRARY_IMPL(fused_attention, Meta, m) {
  m.impl(FA_META_OF("forward"), fused_attention::forward_meta);
  m.impl(FA_META_OF("forward_lse"), fused_attention::forward_lse_meta);
}
#endif
