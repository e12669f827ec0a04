// What differs between torch 1.8 and 2.15. FUSED_ATTENTION_TORCH is major * 100 + minor, given by the build:
// torch's own version header is younger than the oldest torch.
#pragma once

#ifndef FUSED_ATTENTION_TORCH
#error "compile with -DFUSED_ATTENTION_TORCH=<major * 100 + minor of torch>"
#endif

// All of ATen takes 4 seconds to compile; since 2.0 each operator has its own header.
#if FUSED_ATTENTION_TORCH >= 200
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#else
#include <ATen/ATen.h>
#endif

#ifndef TORCH_CHECK_TYPE
#define TORCH_CHECK_TYPE TORCH_CHECK
#endif
#ifndef TORCH_CHECK_VALUE
#define TORCH_CHECK_VALUE TORCH_CHECK
#endif

namespace fused_attention {

#if FUSED_ATTENTION_TORCH >= 204
template <class T>
using Optional = std::optional<T>;
#else
template <class T>
using Optional = c10::optional<T>;
#endif

// How shared code reads a tensor's sizes: as integers from a real tensor, which is fast...
struct PlainSizes {
  using Size = int64_t;
  static Size size(const at::Tensor& t, int64_t dim) { return t.sizes()[dim]; }
  static Size stride(const at::Tensor& t, int64_t dim) { return t.strides()[dim]; }
  static at::Tensor empty_contiguous(const at::Tensor& t) { return at::empty(t.sizes(), t.options()); }
  // The same as at::empty_like for such tensors, a microsecond faster: it skips the dispatcher.
  static at::Tensor empty_like(const at::Tensor& t) {
#if FUSED_ATTENTION_TORCH >= 200
    if (t.device().is_cpu() && t.is_non_overlapping_and_dense()) {
      return at::Tensor(at::detail::empty_strided_cpu(t.sizes(), t.strides(), t.scalar_type()));
    }
#endif
    return at::empty_like(t);
  }
};

// ... and as symbols in a trace. Older torch does not trace with meta tensors.
#if FUSED_ATTENTION_TORCH >= 200
struct SymbolicSizes {
  using Size = c10::SymInt;
  static Size size(const at::Tensor& t, int64_t dim) { return t.sym_sizes()[dim]; }
  static Size stride(const at::Tensor& t, int64_t dim) { return t.sym_strides()[dim]; }
  static at::Tensor empty_contiguous(const at::Tensor& t) { return at::empty_symint(t.sym_sizes(), t.options()); }
  static at::Tensor empty_like(const at::Tensor& t) { return at::empty_like(t); }
};
#endif

#if FUSED_ATTENTION_TORCH >= 110
using BelowAutograd = at::AutoDispatchBelowADInplaceOrView;
#else
using BelowAutograd = at::AutoNonVariableTypeMode;
#endif

}  // namespace fused_attention
