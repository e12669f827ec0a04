#include "amx.h"

#ifdef FA_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fused_attention {

namespace {

// arch/x86/include/uapi/asm/prctl.h and arch/x86/include/asm/fpu/types.h; older systems' headers have neither.
constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr int kTileConfigState = 17;        // XFEATURE_XTILECFG
constexpr int kTileDataState = 18;          // XFEATURE_XTILEDATA

bool request() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool has_bf16 = d >> 22 & 1, has_tiles = d >> 24 & 1;
  if (!has_bf16 || !has_tiles) return false;
  uint32_t low, high;
  asm volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));  // xgetbv
  const uint32_t states = 1u << kTileConfigState | 1u << kTileDataState;
  if ((low & states) != states) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileDataState) == 0;
}

}  // namespace

bool amx_usable() {
  static const bool usable = request();
  return usable;
}

}  // namespace fused_attention
#endif
