// The interface of the CPU kernels of all instruction sets.
#pragma once

#include "../params.h"

namespace fused_attention {

constexpr int kScratchAlignment = 64;

constexpr int kGranule = 16;      // rows
constexpr int kMaxPanelRows = 64;
constexpr int kChunkKeys = 192;    // a multiple of every kernel's blocks

// A kernel's panel sizes and the relative cost of a key. Plans are made for these.
struct PanelCosts {
  int id;               // differs between different costs
  int key_multiple[3];  // for panels of 1, 2 and 4 granules: a chunk's number of keys is a multiple; 0: no such panels
  float key_cost[3];    // of a key for a granule, relative to the best panel size
  float gather_cost;    // extra cost of a listed key for the panel, on the same scale
};

struct Chunk {
  int32_t first;     // of a run: its first key, even; of a list: index into HeadPlan::keys
  int32_t count;     // number of keys, a multiple of PanelCosts::key_multiple
  int32_t words;     // index into HeadPlan::words, [count][granules]: bits of the rows that see a key; -1: all do
  bool is_list;
};

struct Panel {
  int32_t row;       // first row; of listed rows: index into HeadPlan::rows
  int32_t rows;      // at most 16 * granules
  int32_t granules;  // 1, 2 or 4
  int32_t chunk_begin, chunk_end;
  int32_t key_end;   // one past the last key
  bool is_listed;
  bool continues;    // an earlier phase began these rows
  bool finishes;     // no later phase adds to these rows
};

// A view of a HeadPlan; see plan.h for the tables.
struct PlanView {
  const Panel* panels;
  const Chunk* chunks;
  const int32_t *keys, *rows;
  const uint16_t* words;
  int64_t panel_count;
  float visits;  // how many granules read a key, on average
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

// A position in the order of work: by batch and head, then by panel.
struct Position {
  int64_t head;   // batch * heads + head
  int64_t panel;
};

struct CpuKernel {
  const char* capability;  // "default", "avx2", "avx512", "avx512_bf16" or, for bfloat16 alone, "avx512_amx"
  // Floats of scratch memory that one thread needs.
  int64_t (*scratch_floats)(const Problem& problem);
  // Computes the panels [from, to). `scratch` is aligned to kScratchAlignment.
  void (*attend)(const Problem& problem, Position from, Position to, float* scratch);
  // The same for the gradients. dq is complete then. The dk and dv of a key/value head that [from, to) covers in part
  // become sums, [dk, dv][k_len][width], in `first` if `from` is within the head and else in `last`.
  int64_t (*gradient_scratch_floats)(const Problem& problem);
  void (*differentiate)(const Problem& problem, const GradientParams& gradients, Position from, Position to,
                        float* scratch, float* first, float* last);
  // Adds `count` such sums, into the first one, and stores dk and dv of the keys [begin, end).
  void (*store_key_gradients)(const Problem& problem, const GradientParams& gradients, int64_t batch, int64_t kv_head,
                              int64_t begin, int64_t end, float* const* sums, int count);
  PanelCosts costs;
};

CpuKernel kernel_default();
CpuKernel kernel_avx2();
CpuKernel kernel_avx512();
CpuKernel kernel_avx512_bf16();
CpuKernel kernel_avx512_amx();

// The widest kernel that this machine runs and ATEN_CPU_CAPABILITY allows (as for torch's own kernels).
const CpuKernel& select_kernel(DataType dtype);

}  // namespace fused_attention
