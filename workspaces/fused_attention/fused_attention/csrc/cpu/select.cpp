#include "attention.h"

#include <cstdlib>

namespace fused_attention {

namespace {

enum class Level { kDefault, kAvx2, kAvx512 };

Level allowed_level() {
  const char* name = std::getenv("ATEN_CPU_CAPABILITY");
  if (name && strcmp(name, "default") == 0) return Level::kDefault;
  if (name && strcmp(name, "avx2") == 0) return Level::kAvx2;
  return Level::kAvx512;
}

CpuKernel widest(Level allowed) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && allowed >= Level::kAvx512) return {"avx512", attend_avx512};
  if (avx2 && allowed >= Level::kAvx2) return {"avx2", attend_avx2};
#endif
  (void)allowed;
  return {"default", attend_default};
}

}  // namespace

const CpuKernel& select_kernel() {
  static const CpuKernel chosen = widest(allowed_level());
  return chosen;
}

}  // namespace fused_attention
