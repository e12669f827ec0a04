#include "amx.h"
#include "attention.h"

#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fused_attention {

namespace {

enum class Level { kDefault, kAvx2, kAvx512, kAvx512Bf16, kAvx512Amx };

bool is_set_to(const char* variable, const char* value) {
  const char* found = std::getenv(variable);
  return found && strcmp(found, value) == 0;
}

Level allowed_level() {
  if (is_set_to("ATEN_CPU_CAPABILITY", "default")) return Level::kDefault;
  if (is_set_to("ATEN_CPU_CAPABILITY", "avx2")) return Level::kAvx2;
  if (is_set_to("ATEN_CPU_CAPABILITY", "avx512")) return Level::kAvx512;
  if (is_set_to("ATEN_CPU_CAPABILITY", "avx512_bf16")) return Level::kAvx512Bf16;
  return Level::kAvx512Amx;
}

#if defined(__x86_64__)
enum Register { kEax, kEbx, kEcx, kEdx };

// A bit of CPUID, for the features whose names not every supported compiler knows.
bool has_feature(unsigned leaf, unsigned subleaf, Register place, int bit) {
  unsigned registers[4] = {};
  if (!__get_cpuid_count(leaf, subleaf, &registers[kEax], &registers[kEbx], &registers[kEcx], &registers[kEdx])) {
    return false;
  }
  return (registers[place] >> bit) & 1;
}
#endif

CpuKernel widest(Level allowed, DataType dtype) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_feature(1, 0, kEcx, 29);  // F16C
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#if __GNUC__ >= 10
  const bool avx512_bf16 = avx512 && has_feature(7, 1, kEax, 5);
#ifdef FA_AMX
  const bool amx = avx512_bf16 && allowed >= Level::kAvx512Amx && dtype == DataType::kBFloat16 && amx_usable();
  if (amx) return kernel_avx512_amx();
#endif
  if (avx512_bf16 && allowed >= Level::kAvx512Bf16) return kernel_avx512_bf16();
#endif
  if (avx512 && allowed >= Level::kAvx512) return kernel_avx512();
  if (avx2 && allowed >= Level::kAvx2) return kernel_avx2();
#endif
  (void)allowed;
  (void)dtype;
  return kernel_default();
}

}  // namespace

const CpuKernel& select_kernel(DataType dtype) {
  static const CpuKernel chosen = widest(allowed_level(), DataType::kFloat32);
  static const CpuKernel chosen_bf16 = widest(allowed_level(), DataType::kBFloat16);
  return dtype == DataType::kBFloat16 ? chosen_bf16 : chosen;
}

}  // namespace fused_attention
