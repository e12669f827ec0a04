// fused_attention's operators on CUDA devices.
#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <map>
#include <mutex>

#include "../backward.h"
#include "device_lists.h"
#include "launch.h"
#ifdef FUSED_ATTENTION_HOPPER
#include "hopper/launch.h"
#endif

namespace fused_attention {

namespace {

// Cached: the driver takes microseconds to answer, and the answer does not change.
DeviceTraits traits_of(at::Device device) {
  static std::mutex mutex;
  static std::map<int, DeviceTraits> known;
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found = known.find(device.index());
  if (found != known.end()) return found->second;
  DeviceTraits traits{};
  C10_CUDA_CHECK(describe_device(&traits));
  known[device.index()] = traits;
  return traits;
}

#ifdef FUSED_ATTENTION_HOPPER
// Queues the Hopper kernel if the GPU and the call allow it; else returns false.
bool launch_on_hopper(const AttentionParams& p, const DeviceTraits& traits, c10::cuda::CUDAStream stream) {
  if (traits.capability != 90) return false;
  static const KeyTileRange none{};
  TileView view{};  // the view of the lists that would be made
  view.ranges = p.structure.exists() || p.mask.kind == MaskKind::kBool ? &none : nullptr;
  view.rows = hopper::kTileRows;
  view.keys = hopper::kTileKeys;
  if (!hopper_supports(p, view)) return false;
  const DeviceLists lists = make_lists(p, hopper::kTileRows, hopper::kTileKeys, stream);
  C10_CUDA_CHECK(launch_hopper(p, lists.view, stream));
  return true;
}
#endif

void launch(const AttentionParams& params, at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const DeviceTraits traits = traits_of(device);
  constexpr int64_t kMaxLength = int64_t{1} << 30;
  TORCH_CHECK(params.q_len <= kMaxLength && params.k_len <= kMaxLength, "q and k have sequences of ", params.q_len,
              " and ", params.k_len, "; on CUDA at most ", kMaxLength, " are allowed");
#ifdef FUSED_ATTENTION_HOPPER
  if (launch_on_hopper(params, traits, stream)) return;
#endif
  // As torch's matrix products, under the same setting.
  const bool tf32 = params.dtype == DataType::kFloat32 && at::globalContext().allowTF32CuBLAS();
  const LaunchPlan plan = plan_attention(params, traits, tf32);
  const DeviceLists lists = make_lists(params, plan.rows, kTileKeys, stream);
  C10_CUDA_CHECK(launch_attention(make_call(params, lists.view, plan, traits), plan, stream));
}

bool differentiate(const AttentionParams& params, const GradientParams& gradients, at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const DeviceTraits traits = traits_of(device);
  if (!has_gradients(params, traits)) return false;
  LaunchPlan plan{};
  plan.rows = kGradientRows;
  const DeviceLists lists = make_lists(params, plan.rows, kTileKeys, stream);
  const Call call = make_call(params, lists.view, plan, traits);
  C10_CUDA_CHECK(launch_gradients(make_gradient_call(call, gradients), stream));
  return true;
}

}  // namespace

}  // namespace fused_attention

TORCH_LIBRARY_IMPL(fused_attention, CUDA, m) {
  m.impl("forward", fused_attention::forward_on<fused_attention::launch>);
  m.impl("forward_lse", fused_attention::forward_lse_on<fused_attention::launch>);
  m.impl("backward", fused_attention::backward_on<fused_attention::launch, fused_attention::differentiate>);
}
