// A short way from Python to the CPU kernel, past the argument parser and the dispatcher, which together take longer
// than the attention of a short sequence. It takes only calls that the dispatcher would hand to that kernel unchanged,
// and gives every other one back: Python then goes the usual way.
#include "ops.h"

// Needs Python's headers, and a torch whose dispatch keys say everything about a tensor.
#if FUSED_ATTENTION_TORCH >= 200 && defined(__has_include)
#if __has_include(<Python.h>)
#define FA_HAS_DIRECT
#endif
#endif

#ifdef FA_HAS_DIRECT
#include <torch/csrc/autograd/python_variable.h>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace fused_attention {

namespace {

at::Tensor forward_signature(FA_FORWARD_PARAMETERS);

// A reference to an object of Python, given back at the end.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

bool is_plain_tensor(PyObject* object) {
  return Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(THPVariableClass);
}

// The (structure, mask) that a masks.Mask lowers to for these tensors' lengths; null where it does not. What is no
// error of the call, such as an interrupt, stays set.
PyObject* lower(PyObject* mask, const at::Tensor& q, const at::Tensor& k) {
  static PyObject* const name = PyUnicode_InternFromString("lower");
  if (q.dim() != 4 || k.dim() != 4) return nullptr;
  const Owned q_len(PyLong_FromLongLong(q.sizes()[2])), k_len(PyLong_FromLongLong(k.sizes()[2]));
  PyObject* lowered = PyObject_CallMethodObjArgs(mask, name, q_len.get(), k_len.get(), nullptr);
  if (!lowered && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
  if (lowered && PyTuple_CheckExact(lowered) && PyTuple_GET_SIZE(lowered) == 2) return lowered;
  Py_XDECREF(lowered);
  return nullptr;
}

// A call's objects. Whatever is not plainly of the right type is left to the parser.
class Reader {
 public:
  bool ok() const { return ok_; }
  c10::DispatchKeySet keys() const { return keys_; }

  // Neither a subclass, which may have its own idea of the call, nor one that autograd or a transform must see.
  const at::Tensor& tensor(PyObject* object) {
    if (!is_plain_tensor(object)) return fail();
    const at::Tensor& t = THPVariable_Unpack(object);
    if (!t.defined()) return fail();
    keys_ = keys_ | t.key_set();
    // Also what holds a forward-mode tangent; a tensor that nothing differentiates has no such record.
    if (t.unsafeGetTensorImpl()->autograd_meta() &&
        ((t.requires_grad() && c10::GradMode::is_enabled()) || t._fw_grad(0).defined())) {
      return fail();
    }
    return t;
  }

  Optional<at::Tensor> optional_tensor(PyObject* object) {
    if (object == Py_None) return {};
    const at::Tensor& t = tensor(object);
    return ok_ ? Optional<at::Tensor>(t) : Optional<at::Tensor>();
  }

  int64_t integer(PyObject* object) {
    if (!PyLong_CheckExact(object)) return ok_ = false;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) ok_ = false;
    return value;
  }

  bool boolean(PyObject* object) {
    if (object != Py_True && object != Py_False) ok_ = false;
    return object == Py_True;
  }

  Optional<double> optional_double(PyObject* object) {
    if (object == Py_None) return {};
    if (!PyFloat_CheckExact(object)) ok_ = false;
    return ok_ ? Optional<double>(PyFloat_AS_DOUBLE(object)) : Optional<double>();
  }

 private:
  const at::Tensor& fail() {
    static const at::Tensor none;
    ok_ = false;
    return none;
  }

  bool ok_ = true;
  c10::DispatchKeySet keys_;
};

// Whether the dispatcher would go straight to the CPU kernel: no mode, trace, transform, autocast, profiler or device
// of another kind has a part in the call.
bool goes_to_the_cpu(c10::DispatchKeySet keys) {
  // None const: torch 2.6 and before cannot read the bits of a set that is.
  c10::DispatchKeySet plain({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView,
                             c10::DispatchKey::BackendSelect});
  auto local = c10::impl::tls_local_dispatch_key_set();
  const uint64_t seen = (keys.raw_repr() | local.included_.raw_repr()) & ~local.excluded_.raw_repr();
  return !(seen & ~plain.raw_repr()) && !at::impl::torch_function_mode_enabled() && !at::hasCallbacks();
}

PyObject* not_for_here() {
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

// The operator's arguments in its order, none left out; a masks.Mask may stand in for mask and structure. Gives
// NotImplemented back for a call of another kind, and for one that fails: the usual way then says why.
PyObject* forward(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kArguments = 12;
  if (count != kArguments) return not_for_here();
  try {
    Reader read;
    const at::Tensor &q = read.tensor(arguments[0]), &k = read.tensor(arguments[1]), &v = read.tensor(arguments[2]);
    if (!read.ok() || !goes_to_the_cpu(read.keys())) return not_for_here();
    PyObject *mask_object = arguments[3], *structure_object = arguments[4];
    const bool is_mask = mask_object != Py_None && !is_plain_tensor(mask_object) && arguments[6] == Py_None;
    const Owned lowered(is_mask ? lower(mask_object, q, k) : nullptr);
    if (PyErr_Occurred()) return nullptr;
    if (lowered.get()) {
      structure_object = PyTuple_GET_ITEM(lowered.get(), 0);
      mask_object = PyTuple_GET_ITEM(lowered.get(), 1);
    }
    const auto mask = read.optional_tensor(mask_object), structure = read.optional_tensor(structure_object),
               alibi_slopes = read.optional_tensor(arguments[5]), cu_seqlens_q = read.optional_tensor(arguments[6]),
               cu_seqlens_k = read.optional_tensor(arguments[7]);
    const int64_t max_seqlen_q = read.integer(arguments[8]), max_seqlen_k = read.integer(arguments[9]);
    const bool is_causal = read.boolean(arguments[10]);
    const auto scale = read.optional_double(arguments[11]);
    if (!read.ok() || !goes_to_the_cpu(read.keys())) return not_for_here();

    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("fused_attention::forward", "")
                               .typed<decltype(forward_signature)>();
    at::Tensor out;
    {
      struct WithoutTheInterpreter {
        PyThreadState* state = PyEval_SaveThread();
        ~WithoutTheInterpreter() { PyEval_RestoreThread(state); }
      } released;
      out = op.redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), FA_FORWARD_NAMES);
    }
    return THPVariable_Wrap(std::move(out));
  } catch (const std::exception&) {
    return not_for_here();
  }
}

PyMethodDef kForward = {"forward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(forward)), METH_FASTCALL,
                        nullptr};

}  // namespace

}  // namespace fused_attention

// A new reference to the function, for ctypes.PyDLL.
extern "C" PyObject* fused_attention_direct() {
  return PyCFunction_New(&fused_attention::kForward, nullptr);
}
#endif
