#pragma once

#include <string>
#include <tuple>

#include "compat.h"
#include "params.h"

// The operator's arguments, in order: a new one is declared here alone. The schema, the signatures, Arguments and what
// autograd saves follow. X(kind, name) is one argument, S() stands between two.
#define FA_ARGUMENTS(X, S)                                                                             \
  X(Tensor, q) S() X(Tensor, k) S() X(Tensor, v) S() X(OptionalTensor, mask) S()                       \
  X(OptionalTensor, structure) S() X(OptionalTensor, alibi_slopes) S() X(OptionalTensor, cu_seqlens_q) S() \
  X(OptionalTensor, cu_seqlens_k) S() X(Integer, max_seqlen_q) S() X(Integer, max_seqlen_k) S()        \
  X(Flag, is_causal) S() X(OptionalNumber, scale)

#define FA_COMMA() ,
#define FA_NAME(kind, name) name
#define FA_PARAMETER(kind, name) fused_attention::kind::Parameter name
#define FA_MEMBER(kind, name) a.name
// For a function's parameters, for a call with them, and for a call with the members of an object `a`.
#define FA_FORWARD_PARAMETERS FA_ARGUMENTS(FA_PARAMETER, FA_COMMA)
#define FA_FORWARD_NAMES FA_ARGUMENTS(FA_NAME, FA_COMMA)
#define FA_FORWARD_OF_A FA_ARGUMENTS(FA_MEMBER, FA_COMMA)

// A trace by meta tensors needs all tensors of a call on one device, and a structured mask is always on the CPU. So the
// fake kernels are registered in Python (fakes.py), drop that tensor, and call these operators' meta kernels.
#if FUSED_ATTENTION_TORCH >= 204
#define FA_HAS_FAKES
#define FA_META_OF(name) name "_fake"
#else
#define FA_META_OF(name) name
#endif

namespace fused_attention {

// The kinds of arguments: as a parameter, as a value to keep, and in a schema (before and after the name).
struct Tensor {
  using Parameter = const at::Tensor&;
  using Value = at::Tensor;
  static std::string schema(const std::string& name) { return "Tensor " + name; }
};
struct OptionalTensor {
  using Parameter = const Optional<at::Tensor>&;
  using Value = Optional<at::Tensor>;
  static std::string schema(const std::string& name) { return "Tensor? " + name + "=None"; }
};
struct Integer {
  using Parameter = int64_t;
  using Value = int64_t;
  static std::string schema(const std::string& name) { return "int " + name + "=0"; }
};
struct Flag {
  using Parameter = bool;
  using Value = bool;
  static std::string schema(const std::string& name) { return "bool " + name + "=False"; }
};
struct OptionalNumber {
  using Parameter = Optional<double>;
  using Value = Optional<double>;
  static std::string schema(const std::string& name) { return "float? " + name + "=None"; }
};

// One call of fused_attention::forward. A max_seqlen of zero: not given.
struct Arguments {
#define FA_FIELD(kind, name) kind::Parameter name;
#define FA_NOTHING()
  FA_ARGUMENTS(FA_FIELD, FA_NOTHING)

  bool is_packed() const { return cu_seqlens_q.has_value(); }
};

// A call's parameters without its results, and the tensors that they point to.
struct PreparedCall {
  explicit PreparedCall(const Arguments& arguments);

  at::Tensor q, k, v;
  at::Tensor cu_seqlens_q, cu_seqlens_k, structure, alibi_slopes;
  AttentionParams params{};

 private:
  void set_mask(const Arguments& arguments);
  void set_packed(const Arguments& arguments);
};

Strides strides_of(const at::Tensor& t);
// `t`, or a copy whose head dimension is contiguous.
at::Tensor with_contiguous_dim(const at::Tensor& t);
// In the memory order of `t`, with a contiguous head dimension.
at::Tensor allocate_like(const at::Tensor& t);

using Launch = void (*)(const AttentionParams& params, at::Device device);

// The operator on one device: checks, allocates the output, and launches where there is something to compute. Fills
// `lse`, float32 [batch, heads, rows of q], unless it is null.
at::Tensor forward_with(Launch launch, const Arguments& arguments, at::Tensor* lse);

// forward_with(launch) under the operator's signature, to be registered for a device.
template <Launch launch>
at::Tensor forward_on(FA_FORWARD_PARAMETERS) {
  return forward_with(launch, Arguments{FA_FORWARD_NAMES}, nullptr);
}

template <Launch launch>
std::tuple<at::Tensor, at::Tensor> forward_lse_on(FA_FORWARD_PARAMETERS) {
  at::Tensor lse;
  const auto out = forward_with(launch, Arguments{FA_FORWARD_NAMES}, &lse);
  return std::tuple<at::Tensor, at::Tensor>(out, lse);
}

}  // namespace fused_attention
