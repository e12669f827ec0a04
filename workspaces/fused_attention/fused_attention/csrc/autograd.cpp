// Autograd: the gradient of forward is the operator fused_attention::backward. A second derivative is an error.
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

at::Tensor forward_signature(FA_FORWARD_PARAMETERS);
std::tuple<at::Tensor, at::Tensor> forward_lse_signature(FA_FORWARD_PARAMETERS);
Gradients backward_signature(FA_BACKWARD_PARAMETERS);

at::Tensor call_forward(const Arguments& a) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fused_attention::forward", "")
                             .typed<decltype(forward_signature)>();
  return op.call(FA_FORWARD_OF_A);
}

std::tuple<at::Tensor, at::Tensor> call_forward_lse(const Arguments& a) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fused_attention::forward_lse", "")
                             .typed<decltype(forward_lse_signature)>();
  return op.call(FA_FORWARD_OF_A);
}

Gradients call_backward(const at::Tensor& grad, Wanted wanted, const Optional<at::Tensor>& out,
                        const Optional<at::Tensor>& lse, const Arguments& a) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fused_attention::backward", "")
                             .typed<decltype(backward_signature)>();
  return op.call(grad, wanted, out, lse, FA_FORWARD_OF_A);
}

// What autograd keeps of a call until its backward pass.
struct SavedArguments {
#define FA_SAVED_FIELD(kind, name) kind::Value name;
  FA_ARGUMENTS(FA_SAVED_FIELD, FA_NOTHING)
};

// Tensors go through save_for_backward, in order, and everything else through saved_data, by name.
class ArgumentSaver {
 public:
  explicit ArgumentSaver(AutogradContext* context) : context_(context) {}

  void save(const char*, const at::Tensor& t) { tensors_.push_back(t); }
  void save(const char*, const Optional<at::Tensor>& t) { tensors_.push_back(t.has_value() ? *t : at::Tensor()); }
  template <class T>
  void save(const char* name, const T& value) {
    context_->saved_data[name] = value;
  }
  // The call's result and its log-sum-exps come last.
  void done(const at::Tensor& out, const at::Tensor& lse) {
    tensors_.push_back(out);
    tensors_.push_back(lse);
    context_->save_for_backward(tensors_);
  }

 private:
  AutogradContext* context_;
  variable_list tensors_;
};

class ArgumentReader {
 public:
  explicit ArgumentReader(AutogradContext* context)
      : data_(context->saved_data), tensors_(context->get_saved_variables()) {}

  void read(const char*, at::Tensor* t) { *t = tensors_[next_++]; }
  void read(const char*, Optional<at::Tensor>* t) {
    const at::Tensor& one = tensors_[next_++];
    if (one.defined()) *t = one;
  }
  void read(const char* name, int64_t* value) { *value = data_[name].toInt(); }
  void read(const char* name, bool* value) { *value = data_[name].toBool(); }
  void read(const char* name, Optional<double>* value) { *value = data_[name].toOptional<double>(); }

 private:
  decltype(AutogradContext::saved_data)& data_;
  variable_list tensors_;
  size_t next_ = 0;
};

// The place of each argument, which is that of its gradient.
#define FA_PLACE(kind, name) kPlace_##name
enum Place { FA_ARGUMENTS(FA_PLACE, FA_COMMA), kPlaces };

class ForwardFunction : public torch::autograd::Function<ForwardFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, FA_FORWARD_PARAMETERS) {
    const Arguments arguments{FA_FORWARD_NAMES};
    ArgumentSaver saver(context);
#define FA_SAVE(kind, name) saver.save(#name, name);
    FA_ARGUMENTS(FA_SAVE, FA_NOTHING)
    c10::List<bool> flags;
    for (const bool one : wanted_of(arguments)) flags.push_back(one);
    context->saved_data["wanted"] = flags;
    BelowAutograd guard;
    at::Tensor out, lse;
    std::tie(out, lse) = call_forward_lse(arguments);
    saver.done(out, lse);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ArgumentReader reader(context);
    SavedArguments a;
#define FA_READ(kind, name) reader.read(#name, &a.name);
    FA_ARGUMENTS(FA_READ, FA_NOTHING)
    const auto flags = context->saved_data["wanted"].toBoolList();
    Wanted wanted;
    for (int i = 0; i < kWantCount; ++i) wanted[i] = flags.get(i);
    Optional<at::Tensor> out, lse;
    reader.read("out", &out);
    reader.read("lse", &lse);
    const auto computed = call_backward(grads[0], wanted, out, lse, Arguments{FA_FORWARD_OF_A});
    variable_list gradients(kPlaces);
    const auto set = [&](Place place, WantedIndex i, const at::Tensor& gradient) {
      if (wanted[i]) gradients[place] = gradient;
    };
    set(kPlace_q, kWantQuery, std::get<kWantQuery>(computed));
    set(kPlace_k, kWantKey, std::get<kWantKey>(computed));
    set(kPlace_v, kWantValue, std::get<kWantValue>(computed));
    set(kPlace_mask, kWantMask, std::get<kWantMask>(computed));
    set(kPlace_alibi_slopes, kWantSlopes, std::get<kWantSlopes>(computed));
    return gradients;
  }
};

at::Tensor forward_autograd(FA_FORWARD_PARAMETERS) {
  const Arguments arguments{FA_FORWARD_NAMES};
  check_no_forward_gradient(arguments);
  if (at::GradMode::is_enabled() && any(wanted_of(arguments))) return ForwardFunction::apply(FA_FORWARD_NAMES);
  BelowAutograd guard;
  return call_forward(arguments);
}

class BackwardFunction : public torch::autograd::Function<BackwardFunction> {
 public:
  static variable_list forward(AutogradContext*, FA_BACKWARD_PARAMETERS) {
    BelowAutograd guard;
    const auto gradients = call_backward(grad, wanted, out, lse, Arguments{FA_FORWARD_NAMES});
    return {std::get<0>(gradients), std::get<1>(gradients), std::get<2>(gradients), std::get<3>(gradients),
            std::get<4>(gradients)};
  }

  static variable_list backward(AutogradContext*, variable_list) {
    TORCH_CHECK(false, "fused_attention has no second derivatives; omit create_graph=True, or use "
                "torch.nn.functional.scaled_dot_product_attention");
  }
};

Gradients backward_autograd(FA_BACKWARD_PARAMETERS) {
  if (at::GradMode::is_enabled() && (grad.requires_grad() || any(wanted_of(Arguments{FA_FORWARD_NAMES})))) {
    const auto gradients = BackwardFunction::apply(grad, wanted, out, lse, FA_FORWARD_NAMES);
    return Gradients{gradients[0], gradients[1], gradients[2], gradients[3], gradients[4]};
  }
  BelowAutograd guard;
  return call_backward(grad, wanted, out, lse, Arguments{FA_FORWARD_NAMES});
}

#if FUSED_ATTENTION_TORCH >= 200
Gradients backward_meta(FA_BACKWARD_PARAMETERS) {
  check_arguments<SymbolicSizes>(Arguments{FA_FORWARD_NAMES});
  check_backward<SymbolicSizes>(grad, out, lse, q);
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

// Older torch traces nothing by meta tensors.
#if FUSED_ATTENTION_TORCH >= 200
TORCH_LIBRARY_IMPL(fused_attention, Meta, m) {
  m.impl(FA_META_OF("backward"), fused_attention::backward_meta);
}
#endif
