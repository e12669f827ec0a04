#include "checks.h"

#include <cmath>
#include <sstream>
#include <string>

#include "portable.h"

namespace fused_attention {

namespace {

std::string name_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "torch.float32";
    case at::kDouble: return "torch.float64";
    case at::kHalf: return "torch.float16";
    case at::kBFloat16: return "torch.bfloat16";
    case at::kBool: return "torch.bool";
    case at::kInt: return "torch.int32";
    case at::kLong: return "torch.int64";
    case at::kByte: return "torch.uint8";
    default: return c10::toString(type);
  }
}

template <class Sizes>
std::string shape_of(const at::Tensor& t) {
  std::ostringstream text;
  for (int64_t i = 0; i < t.dim(); ++i) text << (i ? ", " : "[") << Sizes::size(t, i);
  text << (t.dim() ? "]" : "[]");
  return text.str();
}

void check_same_device(const char* name, const at::Tensor& t, const at::Tensor& q) {
  TORCH_CHECK(t.device() == q.device(), name, " is on ", t.device(), " and q on ", q.device(),
              "; all tensors must be on one device");
}

// None arrives as an undefined tensor.
void check_layout(const char* name, const at::Tensor& t) {
  TORCH_CHECK_TYPE(t.defined(), name, " is None; it must be a tensor");
  TORCH_CHECK_TYPE(t.layout() == at::kStrided, name, " has layout ", t.layout(),
                   "; only strided tensors are allowed");
}

template <class Sizes>
void check_ndim(const char* name, const at::Tensor& t) {
  TORCH_CHECK_VALUE(t.dim() == 4, name, " has ", t.dim(), " dimensions, shape ", shape_of<Sizes>(t),
                    "; it must be [batch, heads, seq, dim]");
}

template <class Sizes>
void check_query(const at::Tensor& q) {
  check_layout("q", q);
  const auto type = q.scalar_type();
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "q has dtype ", name_of(type),
                   "; allowed are torch.float32, torch.bfloat16 and torch.float16");
  check_ndim<Sizes>("q", q);
  const auto head_dim = Sizes::size(q, 3);
  TORCH_CHECK_VALUE(head_dim >= 1 && head_dim <= kMaxHeadDim, "q has head dimension ", head_dim,
                    " (its last); allowed are 1 to ", kMaxHeadDim);
}

template <class Sizes>
void check_key_value(const char* name, const at::Tensor& t, const at::Tensor& q) {
  check_layout(name, t);
  check_same_device(name, t, q);
  TORCH_CHECK_TYPE(t.scalar_type() == q.scalar_type(), name, " has dtype ", name_of(t.scalar_type()), " and q has ",
                   name_of(q.scalar_type()), "; they must be the same");
  check_ndim<Sizes>(name, t);
  TORCH_CHECK_VALUE(Sizes::size(t, 0) == Sizes::size(q, 0), name, " has batch ", Sizes::size(t, 0), " and q has ", Sizes::size(q, 0),
                    "; they must be the same (Tensor.expand broadcasts without a copy)");
  TORCH_CHECK_VALUE(Sizes::size(t, 3) == Sizes::size(q, 3), name, " has head dimension ", Sizes::size(t, 3), " and q has ",
                    Sizes::size(q, 3), "; they must be the same");
}

template <class Sizes>
void check_value_against_key(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto heads = Sizes::size(q, 1), kv_heads = Sizes::size(k, 1);
  TORCH_CHECK_VALUE(kv_heads == heads || (kv_heads > 0 && heads % kv_heads == 0), "k has ", kv_heads,
                    " heads and q has ", heads, "; the heads of k must divide those of q");
  TORCH_CHECK_VALUE(Sizes::size(v, 1) == kv_heads, "v has ", Sizes::size(v, 1), " heads and k has ", kv_heads,
                    "; they must be the same");
  TORCH_CHECK_VALUE(Sizes::size(v, 2) == Sizes::size(k, 2), "v has sequence length ", Sizes::size(v, 2), " and k has ",
                    Sizes::size(k, 2), "; they must be the same");
}

// A packed call's mask is over sequences, not over rows of the packed tensors.
template <class Sizes>
void check_mask(const Arguments& a) {
  using Size = typename Sizes::Size;
  const at::Tensor &q = a.q, &mask = *a.mask;
  check_layout("mask", mask);
  check_same_device("mask", mask, q);
  const auto type = mask.scalar_type();
  TORCH_CHECK_TYPE(type == at::kBool || type == at::kFloat || type == q.scalar_type(), "mask has dtype ",
                   name_of(type), "; allowed are torch.bool (True: attend), torch.float32 and the dtype of q, ",
                   name_of(q.scalar_type()), " (added to the scores)");
  TORCH_CHECK_VALUE(!a.is_packed() || a.max_seqlen_q > 0 && a.max_seqlen_k > 0, "mask is given with cu_seqlens and "
                    "without max_seqlen; a packed call's mask needs max_seqlen, the length that it is made for");
  const Size target[4] = {a.is_packed() ? Size(Sizes::size(*a.cu_seqlens_q, 0) - 1) : Sizes::size(q, 0),
                          Sizes::size(q, 1), a.is_packed() ? Size(a.max_seqlen_q) : Sizes::size(q, 2),
                          a.is_packed() ? Size(a.max_seqlen_k) : Sizes::size(a.k, 2)};
  bool fits = mask.dim() <= 4;
  for (int64_t i = 1; fits && i <= mask.dim(); ++i) {
    const auto size = Sizes::size(mask, mask.dim() - i);
    fits = size == 1 || size == target[4 - i];
  }
  TORCH_CHECK_VALUE(fits, "mask has shape ", shape_of<Sizes>(mask), "; it must broadcast to [batch, heads, q, k] = [",
                    target[0], ", ", target[1], ", ", target[2], ", ", target[3], "]");
}

// What masks.Mask.lower writes.
template <class Sizes>
void check_structure_tensor(const at::Tensor& structure) {
  check_layout("structure", structure);
  TORCH_CHECK_VALUE(structure.dim() == 1, "structure has ", structure.dim(), " dimensions, shape ",
                    shape_of<Sizes>(structure), "; it must have one, as masks.Mask.lower makes it");
  TORCH_CHECK(structure.device().is_cpu() || structure.is_meta(), "structure is on ", structure.device(), "; it must be on the CPU, "
              "whatever the device of q is");
  TORCH_CHECK_TYPE(structure.scalar_type() == at::kLong, "structure has dtype ", name_of(structure.scalar_type()),
                   "; it must be torch.int64");
}

template <class Sizes>
void check_slopes(const at::Tensor& slopes, const at::Tensor& q) {
  check_layout("alibi_slopes", slopes);
  check_same_device("alibi_slopes", slopes, q);
  TORCH_CHECK_TYPE(slopes.scalar_type() == at::kFloat, "alibi_slopes has dtype ", name_of(slopes.scalar_type()),
                   "; it must be torch.float32");
  TORCH_CHECK_VALUE(slopes.dim() == 1 && Sizes::size(slopes, 0) == Sizes::size(q, 1), "alibi_slopes has shape ",
                    shape_of<Sizes>(slopes), "; it must be [heads] = [", Sizes::size(q, 1), "]");
}

template <class Sizes>
void check_seqlens(const char* name, const at::Tensor& t, const at::Tensor& q) {
  check_layout(name, t);
  check_same_device(name, t, q);
  TORCH_CHECK_TYPE(t.scalar_type() == at::kInt, name, " has dtype ", name_of(t.scalar_type()),
                   "; it must be torch.int32");
  TORCH_CHECK_VALUE(t.dim() == 1 && Sizes::size(t, 0) >= 1, name, " has shape ", shape_of<Sizes>(t),
                    "; it must be [sequences + 1], the sequences' ends after a first 0");
}

template <class Sizes>
void check_packed(const Arguments& a) {
  if (!a.is_packed()) {
    TORCH_CHECK_VALUE(!a.cu_seqlens_k.has_value(), "cu_seqlens_k is given without cu_seqlens (of q); packed keys need "
                      "packed queries");
    TORCH_CHECK_VALUE(!a.max_seqlen_q && !a.max_seqlen_k, a.max_seqlen_q ? "max_seqlen is " : "max_seqlen_k is ",
                      a.max_seqlen_q ? a.max_seqlen_q : a.max_seqlen_k, " without cu_seqlens; only packed sequences "
                      "have one");
    return;
  }
  check_seqlens<Sizes>("cu_seqlens", *a.cu_seqlens_q, a.q);
  TORCH_CHECK_VALUE(Sizes::size(a.q, 0) == 1, "q has batch ", Sizes::size(a.q, 0), " and cu_seqlens is given; packed "
                    "sequences lie one after the other in a batch of 1");
  TORCH_CHECK_VALUE(a.max_seqlen_q >= 0, "max_seqlen is ", a.max_seqlen_q, "; it must not be negative");
  TORCH_CHECK_VALUE(a.max_seqlen_k >= 0, "max_seqlen_k is ", a.max_seqlen_k, "; it must not be negative");
  if (a.cu_seqlens_k.has_value()) {
    check_seqlens<Sizes>("cu_seqlens_k", *a.cu_seqlens_k, a.q);
    const auto of_k = Sizes::size(*a.cu_seqlens_k, 0), of_q = Sizes::size(*a.cu_seqlens_q, 0);
    TORCH_CHECK_VALUE(of_k == of_q, "cu_seqlens_k has ", of_k, " elements and cu_seqlens has ", of_q,
                      "; they must be as many");
  } else {
    TORCH_CHECK_VALUE(Sizes::size(a.k, 2) == Sizes::size(a.q, 2), "k has ", Sizes::size(a.k, 2), " packed rows and q "
                      "has ", Sizes::size(a.q, 2), "; they must be as many unless cu_seqlens_k is given");
  }
}

bool has_tangent(const at::Tensor& t) {
#if FUSED_ATTENTION_TORCH >= 111
  return t.defined() && t._fw_grad(0).defined();
#else
  return false;
#endif
}

bool has_tangent(const Optional<at::Tensor>& t) {
  return t.has_value() && has_tangent(*t);
}

}  // namespace

template <class Sizes>
void check_arguments(const Arguments& a) {
  check_query<Sizes>(a.q);
  check_key_value<Sizes>("k", a.k, a.q);
  check_key_value<Sizes>("v", a.v, a.q);
  check_value_against_key<Sizes>(a.q, a.k, a.v);
  check_packed<Sizes>(a);
  if (a.mask.has_value()) check_mask<Sizes>(a);
  if (a.structure.has_value()) check_structure_tensor<Sizes>(*a.structure);
  if (a.alibi_slopes.has_value()) check_slopes<Sizes>(*a.alibi_slopes, a.q);
  TORCH_CHECK_VALUE(!a.scale.has_value() || std::isfinite(*a.scale), "scale is ", *a.scale, "; it must be finite");
}

template void check_arguments<PlainSizes>(const Arguments&);
#if FUSED_ATTENTION_TORCH >= 200
template void check_arguments<SymbolicSizes>(const Arguments&);
#endif

int64_t check_offsets(const char* name, const int32_t* offsets, int64_t sequences, int64_t total,
                      const char* max_name, int64_t max_seqlen) {
  TORCH_CHECK_VALUE(offsets[0] == 0, name, " begins with ", offsets[0], "; it must begin with 0");
  int64_t longest = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t length = static_cast<int64_t>(offsets[i + 1]) - offsets[i];
    TORCH_CHECK_VALUE(length >= 0, name, " falls from ", offsets[i], " to ", offsets[i + 1], " at element ", i + 1,
                      "; it must not fall");
    if (length > longest) longest = length;
  }
  TORCH_CHECK_VALUE(offsets[sequences] == total, name, " ends with ", offsets[sequences],
                    "; it must end with the number of packed rows, ", total);
  TORCH_CHECK_VALUE(!max_seqlen || longest <= max_seqlen, max_name, " is ", max_seqlen, " and the longest sequence of ",
                    name, " has ", longest, " rows; it must be at least as long");
  return longest;
}

void check_structure_fits(const at::Tensor& structure, int64_t batch, int64_t q_len, int64_t k_len) {
  const auto error = check_structure(structure.data_ptr<int64_t>(), structure.size(0), batch, q_len, k_len);
  TORCH_CHECK_VALUE(error.empty(), error);
}

// `t` as the result, or as its gradient.
template <class Sizes>
void check_result(const char* name, const at::Tensor& t, const at::Tensor& q) {
  check_layout(name, t);
  check_same_device(name, t, q);
  TORCH_CHECK_TYPE(t.scalar_type() == q.scalar_type(), name, " has dtype ", name_of(t.scalar_type()), " and q has ",
                   name_of(q.scalar_type()), "; they must be the same");
  bool same = t.dim() == 4;
  for (int64_t i = 0; same && i < 4; ++i) same = Sizes::size(t, i) == Sizes::size(q, i);
  TORCH_CHECK_VALUE(same, name, " has shape ", shape_of<Sizes>(t), " and q has ", shape_of<Sizes>(q),
                    "; they must be the same");
}

template <class Sizes>
void check_backward(const at::Tensor& grad, const Optional<at::Tensor>& out, const Optional<at::Tensor>& lse,
                    const at::Tensor& q) {
  check_result<Sizes>("grad", grad, q);
  TORCH_CHECK_VALUE(out.has_value() == lse.has_value(), "give both out and lse, or neither");
  if (!out.has_value()) return;
  check_result<Sizes>("out", *out, q);
  check_layout("lse", *lse);
  check_same_device("lse", *lse, q);
  TORCH_CHECK_TYPE(lse->scalar_type() == at::kFloat, "lse has dtype ", name_of(lse->scalar_type()),
                   "; it must be torch.float32");
  bool same = lse->dim() == 3;
  for (int64_t i = 0; same && i < 3; ++i) same = Sizes::size(*lse, i) == Sizes::size(q, i);
  TORCH_CHECK_VALUE(same, "lse has shape ", shape_of<Sizes>(*lse), " and q has ", shape_of<Sizes>(q),
                    "; it must have the first three sizes of q");
}

template void check_backward<PlainSizes>(const at::Tensor&, const Optional<at::Tensor>&, const Optional<at::Tensor>&,
                                         const at::Tensor&);
#if FUSED_ATTENTION_TORCH >= 200
template void check_backward<SymbolicSizes>(const at::Tensor&, const Optional<at::Tensor>&,
                                            const Optional<at::Tensor>&, const at::Tensor&);
#endif

void check_no_forward_gradient(const Arguments& a) {
  const char* name = has_tangent(a.q)              ? "q"
                     : has_tangent(a.k)            ? "k"
                     : has_tangent(a.v)            ? "v"
                     : has_tangent(a.mask)         ? "mask"
                     : has_tangent(a.alibi_slopes) ? "alibi_slopes"
                                                   : nullptr;
  TORCH_CHECK(!name, name, " has a forward-mode derivative, and fused_attention has backward gradients only; pass ",
              name, " without a tangent, or use torch.autograd.grad");
}

}  // namespace fused_attention
