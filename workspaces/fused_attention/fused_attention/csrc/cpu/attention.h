// The CPU kernel as its instruction sets share it.
#pragma once

#include "../params.h"

namespace fused_attention {

constexpr int kScratchAlignment = 64;

constexpr int kGranule = 16;      // rows
constexpr int kMaxPanelRows = 64;
constexpr int kChunkKeys = 192;    // a multiple of every kernel's blocks

// What a kernel can do, and the relative cost of a key for a row: what a plan is made for.
struct PanelCosts {
  int id;               // distinct for distinct contents
  int key_multiple[3];  // of panels of 1, 2 and 4 granules: a chunk's keys are rounded up to it; 0: no such panels
  float key_cost[3];    // of a key for a granule, where 1 is the best panel's
  float gather_cost;    // of a listed key for the panel, on the same scale
};

struct Chunk {
  int32_t first;     // of a run: its first key, even; of a list: index into Plan::keys
  int32_t count;     // keys, a multiple of what the kernel asks for
  int32_t words;     // index into Plan::words, [count][granules]: bits of the rows that see a key; -1: all do
  bool is_list;
};

struct Panel {
  int32_t row;       // first row; of listed rows: index into Plan::rows
  int32_t rows;      // at most 16 * granules
  int32_t granules;  // 1, 2 or 4
  int32_t chunk_begin, chunk_end;
  int32_t key_end;   // beyond the last key
  bool is_listed;
  bool continues;    // goes on with rows that an earlier phase began
  bool finishes;     // nothing later adds to these rows
};

// One plan as the kernels see it; plan.h says what the tables are.
struct PlanView {
  const Panel* panels;
  const Chunk* chunks;
  const int32_t *keys, *rows;
  const uint16_t* words;
  int64_t panel_count;
  float visits;  // of a key by granules of rows, on average
};

// One call: its parameters and its schedule.
struct Problem {
  const AttentionParams& params;
  const PlanView* plans;
  int64_t batch_step, head_step;
  bool has_phases;

  const PlanView& plan(int64_t batch, int64_t head) const { return plans[batch * batch_step + head * head_step]; }
  bool has_bias() const { return params.mask.is_additive() || params.alibi; }
};

// A place in the order of work: panels of a head, heads of a batch.
struct Position {
  int64_t head;   // batch * heads + head
  int64_t panel;
};

struct CpuKernel {
  const char* capability;  // "default", "avx2", "avx512", "avx512_bf16" or, for bfloat16 alone, "avx512_amx"
  // Floats of scratch memory that one thread needs.
  int64_t (*scratch_floats)(const Problem& problem);
  // Computes the panels from `from` up to `to`, which it leaves out. `scratch` is aligned to kScratchAlignment.
  void (*attend)(const Problem& problem, Position from, Position to, float* scratch);
  PanelCosts costs;
};

CpuKernel kernel_default();
CpuKernel kernel_avx2();
CpuKernel kernel_avx512();
CpuKernel kernel_avx512_bf16();
CpuKernel kernel_avx512_amx();

// The widest one that this machine runs, at most what ATEN_CPU_CAPABILITY allows (as for torch's own kernels).
const CpuKernel& select_kernel(DataType dtype);

}  // namespace fused_attention
