#include "checks.h"

#include <ATen/core/grad_mode.h>

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

std::string shape_of(const at::Tensor& t) {
  std::ostringstream text;
  for (int64_t i = 0; i < t.dim(); ++i) text << (i ? ", " : "[") << size_of(t, i);
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

void check_ndim(const char* name, const at::Tensor& t) {
  TORCH_CHECK_VALUE(t.dim() == 4, name, " has ", t.dim(), " dimensions, shape ", shape_of(t),
                    "; it must be [batch, heads, seq, dim]");
}

void check_query(const at::Tensor& q) {
  check_layout("q", q);
  const auto type = q.scalar_type();
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "q has dtype ", name_of(type),
                   "; allowed are torch.float32, torch.bfloat16 and torch.float16");
  check_ndim("q", q);
  const auto head_dim = size_of(q, 3);
  TORCH_CHECK_VALUE(head_dim >= 1 && head_dim <= kMaxHeadDim, "q has head dimension ", head_dim,
                    " (its last); allowed are 1 to ", kMaxHeadDim);
}

void check_key_value(const char* name, const at::Tensor& t, const at::Tensor& q) {
  check_layout(name, t);
  check_same_device(name, t, q);
  TORCH_CHECK_TYPE(t.scalar_type() == q.scalar_type(), name, " has dtype ", name_of(t.scalar_type()), " and q has ",
                   name_of(q.scalar_type()), "; they must be the same");
  check_ndim(name, t);
  TORCH_CHECK_VALUE(size_of(t, 0) == size_of(q, 0), name, " has batch ", size_of(t, 0), " and q has ", size_of(q, 0),
                    "; they must be the same (Tensor.expand broadcasts without a copy)");
  TORCH_CHECK_VALUE(size_of(t, 3) == size_of(q, 3), name, " has head dimension ", size_of(t, 3), " and q has ",
                    size_of(q, 3), "; they must be the same");
}

void check_value_against_key(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto heads = size_of(q, 1), kv_heads = size_of(k, 1);
  TORCH_CHECK_VALUE(kv_heads == heads || (kv_heads > 0 && heads % kv_heads == 0), "k has ", kv_heads,
                    " heads and q has ", heads, "; the heads of k must divide those of q");
  TORCH_CHECK_VALUE(size_of(v, 1) == kv_heads, "v has ", size_of(v, 1), " heads and k has ", kv_heads,
                    "; they must be the same");
  TORCH_CHECK_VALUE(size_of(v, 2) == size_of(k, 2), "v has sequence length ", size_of(v, 2), " and k has ",
                    size_of(k, 2), "; they must be the same");
}

void check_mask(const at::Tensor& mask, const at::Tensor& q, const at::Tensor& k) {
  check_layout("mask", mask);
  check_same_device("mask", mask, q);
  const auto type = mask.scalar_type();
  TORCH_CHECK_TYPE(type == at::kBool || type == at::kFloat || type == q.scalar_type(), "mask has dtype ",
                   name_of(type), "; allowed are torch.bool (True: attend), torch.float32 and the dtype of q, ",
                   name_of(q.scalar_type()), " (added to the scores)");
  const Size target[4] = {size_of(q, 0), size_of(q, 1), size_of(q, 2), size_of(k, 2)};
  bool fits = mask.dim() <= 4;
  for (int64_t i = 1; fits && i <= mask.dim(); ++i) {
    const auto size = size_of(mask, mask.dim() - i);
    fits = size == 1 || size == target[4 - i];
  }
  TORCH_CHECK_VALUE(fits, "mask has shape ", shape_of(mask), "; it must broadcast to [batch, heads, q, k] = [",
                    target[0], ", ", target[1], ", ", target[2], ", ", target[3], "]");
}

bool wants_gradient(const at::Tensor& t) {
  if (!t.defined()) return false;
#if FUSED_ATTENTION_TORCH >= 111
  if (t._fw_grad(0).defined()) return true;
#endif
  return t.requires_grad() && at::GradMode::is_enabled();
}

}  // namespace

void check_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Optional<at::Tensor>& mask,
                  const Optional<double>& scale) {
  check_query(q);
  check_key_value("k", k, q);
  check_key_value("v", v, q);
  check_value_against_key(q, k, v);
  if (mask.has_value()) check_mask(*mask, q, k);
  TORCH_CHECK_VALUE(!scale.has_value() || std::isfinite(*scale), "scale is ", *scale, "; it must be finite");
}

void check_no_gradient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const Optional<at::Tensor>& mask) {
  const char* name = wants_gradient(q)   ? "q"
                     : wants_gradient(k) ? "k"
                     : wants_gradient(v) ? "v"
                     : mask.has_value() && wants_gradient(*mask) ? "mask"
                                                                 : nullptr;
  TORCH_CHECK(!name, name, " requires a gradient, and fused_attention has no backward pass; call it under "
              "torch.no_grad() or pass ", name, ".detach()");
}

}  // namespace fused_attention
