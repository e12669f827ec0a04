// How autograd meets the operator: its gradient is the operator fused_attention::backward, whose own is refused.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "backward.h"
#include "checks.h"

namespace fused_attention {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool requires_grad(const at::Tensor& t) {
  return t.requires_grad();
}

bool requires_grad(const Optional<at::Tensor>& t) {
  return t.has_value() && t->requires_grad();
}

Wanted wanted_of(const Arguments& a) {
  return Wanted{{requires_grad(a.q), requires_grad(a.k), requires_grad(a.v), requires_grad(a.mask),
                 requires_grad(a.alibi_slopes)}};
}

bool any(const Wanted& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [](bool one) { return one; });
}

Optional<at::Tensor> if_defined(const at::Tensor& t) {
  return t.defined() ? Optional<at::Tensor>(t) : Optional<at::Tensor>();
}

at::Tensor forward_signature(FA_FORWARD_PARAMETERS);
Gradients backward_signature(const at::Tensor& grad, Wanted wanted, FA_FORWARD_PARAMETERS);

at::Tensor call_forward(FA_FORWARD_PARAMETERS) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fused_attention::forward", "")
                             .typed<decltype(forward_signature)>();
  return op.call(FA_FORWARD_NAMES);
}

Gradients call_backward(const at::Tensor& grad, Wanted wanted, FA_FORWARD_PARAMETERS) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fused_attention::backward", "")
                             .typed<decltype(backward_signature)>();
  return op.call(grad, wanted, FA_FORWARD_NAMES);
}

class ForwardFunction : public torch::autograd::Function<ForwardFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, FA_FORWARD_PARAMETERS) {
    const auto saved = [](const Optional<at::Tensor>& t) { return t.has_value() ? *t : at::Tensor(); };
    context->save_for_backward(
        {q, k, v, saved(mask), saved(structure), saved(alibi_slopes), saved(cu_seqlens_q), saved(cu_seqlens_k)});
    auto& data = context->saved_data;
    data["max_seqlen_q"] = max_seqlen_q;
    data["max_seqlen_k"] = max_seqlen_k;
    data["is_causal"] = is_causal;
    data["scale"] = scale;
    c10::List<bool> flags;
    for (const bool one : wanted_of(Arguments{FA_FORWARD_NAMES})) flags.push_back(one);
    data["wanted"] = flags;
    BelowAutograd guard;
    return call_forward(FA_FORWARD_NAMES);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto flags = data["wanted"].toBoolList();
    Wanted wanted;
    for (int i = 0; i < kWantCount; ++i) wanted[i] = flags.get(i);
    const auto found =
        call_backward(grads[0], wanted, saved[0], saved[1], saved[2], if_defined(saved[3]), if_defined(saved[4]),
                      if_defined(saved[5]), if_defined(saved[6]), if_defined(saved[7]), data["max_seqlen_q"].toInt(),
                      data["max_seqlen_k"].toInt(), data["is_causal"].toBool(), data["scale"].toOptional<double>());
    const auto gradient = [&](WantedIndex i, const at::Tensor& t) { return wanted[i] ? t : at::Tensor(); };
    const at::Tensor none;
    return {gradient(kWantQuery, std::get<kWantQuery>(found)), gradient(kWantKey, std::get<kWantKey>(found)),
            gradient(kWantValue, std::get<kWantValue>(found)), gradient(kWantMask, std::get<kWantMask>(found)), none,
            gradient(kWantSlopes, std::get<kWantSlopes>(found)), none, none, none, none, none, none};
  }
};

at::Tensor forward_autograd(FA_FORWARD_PARAMETERS) {
  const Arguments arguments{FA_FORWARD_NAMES};
  check_no_forward_gradient(arguments);
  if (at::GradMode::is_enabled() && any(wanted_of(arguments))) return ForwardFunction::apply(FA_FORWARD_NAMES);
  BelowAutograd guard;
  return call_forward(FA_FORWARD_NAMES);
}

class BackwardFunction : public torch::autograd::Function<BackwardFunction> {
 public:
  static variable_list forward(AutogradContext*, const at::Tensor& grad, Wanted wanted, FA_FORWARD_PARAMETERS) {
    BelowAutograd guard;
    const auto found = call_backward(grad, wanted, FA_FORWARD_NAMES);
    return {std::get<0>(found), std::get<1>(found), std::get<2>(found), std::get<3>(found), std::get<4>(found)};
  }

  static variable_list backward(AutogradContext*, variable_list) {
    TORCH_CHECK(false, "fused_attention has first derivatives only, and a second one is asked for; compute it with "
                "torch.nn.functional.scaled_dot_product_attention, or without create_graph=True");
  }
};

Gradients backward_autograd(const at::Tensor& grad, Wanted wanted, FA_FORWARD_PARAMETERS) {
  if (at::GradMode::is_enabled() && (grad.requires_grad() || any(wanted_of(Arguments{FA_FORWARD_NAMES})))) {
    const auto found = BackwardFunction::apply(grad, wanted, FA_FORWARD_NAMES);
    return Gradients{found[0], found[1], found[2], found[3], found[4]};
  }
  BelowAutograd guard;
  return call_backward(grad, wanted, FA_FORWARD_NAMES);
}

Gradients backward_device(const at::Tensor& grad, Wanted wanted, FA_FORWARD_PARAMETERS) {
  const Arguments arguments{FA_FORWARD_NAMES};
  check_arguments<PlainSizes>(arguments);
  check_grad<PlainSizes>(grad, q);
  return attention_backward(grad, arguments, wanted);
}

#if FUSED_ATTENTION_TORCH >= 200
Gradients backward_meta(const at::Tensor& grad, Wanted wanted, FA_FORWARD_PARAMETERS) {
  check_arguments<SymbolicSizes>(Arguments{FA_FORWARD_NAMES});
  check_grad<SymbolicSizes>(grad, q);
  const auto like = [&](WantedIndex i, const at::Tensor& t) {
    return wanted[i] ? at::empty_like(t) : at::empty({0}, q.options());
  };
  return Gradients{like(kWantQuery, q), like(kWantKey, k), like(kWantValue, v),
                   like(kWantMask, mask.has_value() ? *mask : q),
                   like(kWantSlopes, alibi_slopes.has_value() ? *alibi_slopes : q)};
}
#endif

}  // namespace

}  // namespace fused_attention

TORCH_LIBRARY_IMPL(fused_attention, Autograd, m) {
  m.impl("forward", fused_attention::forward_autograd);
  m.impl("backward", fused_attention::backward_autograd);
}

TORCH_LIBRARY_IMPL(fused_attention, CPU, m) {
  m.impl("backward", fused_attention::backward_device);
}

TORCH_LIBRARY_IMPL(fused_attention, CUDA, m) {
  m.impl("backward", fused_attention::backward_device);
}

// Older torch traces nothing by meta tensors.
#if FUSED_ATTENTION_TORCH >= 200
TORCH_LIBRARY_IMPL(fused_attention, Meta, m) {
  m.impl(FA_META_OF("backward"), fused_attention::backward_meta);
}
#endif
