// csrc/cpu/select.cpp with stand-ins for the kernels, on a CPU that claims to have AMX.
#include <cstring>

#include "cpu/amx.h"
#include "cpu/attention.h"

namespace fused_attention {

static CpuKernel named(const char* capability) {
  CpuKernel kernel{};
  kernel.capability = capability;
  return kernel;
}

CpuKernel kernel_default() { return named("default"); }
CpuKernel kernel_avx2() { return named("avx2"); }
CpuKernel kernel_avx512() { return named("avx512"); }
CpuKernel kernel_avx512_bf16() { return named("avx512_bf16"); }
CpuKernel kernel_avx512_amx() { return named("avx512_amx"); }
#ifdef FA_AMX
bool amx_usable() { return true; }
#endif

}  // namespace fused_attention

extern "C" {

int can_choose_amx() {
#ifdef FA_AMX
  unsigned found = 0;
  asm volatile("cpuid" : "=a"(found) : "a"(7), "c"(1) : "ebx", "edx");
  return found >> 5 & 1;  // AVX512_BF16
#else
  return 0;
#endif
}

int chooses_amx() {
  using fused_attention::DataType;
  return strcmp(fused_attention::select_kernel(DataType::kBFloat16).capability, "avx512_amx") == 0;
}
}
