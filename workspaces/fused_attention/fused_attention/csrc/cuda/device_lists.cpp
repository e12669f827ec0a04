#include "device_lists.h"

#include <c10/cuda/CUDAException.h>

#include <mutex>

#include "../tiles.h"
#include "launch.h"
#include "recently_used.h"

namespace fused_attention {

namespace {

constexpr size_t kMaxKept = 64;
constexpr int64_t kMaxKeptBytes = int64_t{256} << 20;

struct KeptLists {
  at::Tensor memory;
  TileView view;
};

at::Tensor words_on(c10::cuda::CUDAStream stream, int64_t count) {
  return at::empty({count}, at::TensorOptions().dtype(at::kLong).device(stream.device()));
}

bool is_capturing(c10::cuda::CUDAStream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

KeptLists copy_lists(const AttentionParams& p, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream) {
  const TileLists lists =
      list_tiles(p.structure, p.mask.causal, batches_of(p.structure, p.batch), p.q_len, p.k_len, rows, keys);
  const std::vector<int64_t> packed = lists.packed();
  const at::Tensor memory = words_on(stream, static_cast<int64_t>(packed.size()));
  int64_t* target = memory.data_ptr<int64_t>();
  C10_CUDA_CHECK(
      cudaMemcpyAsync(target, packed.data(), packed.size() * sizeof(int64_t), cudaMemcpyHostToDevice, stream));
  // From here on, any stream may read them.
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  return KeptLists{memory, lists.view(target)};
}

DeviceLists structured_lists(const AttentionParams& p, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream) {
  // Never destroyed: at the end of a process the device may already be gone.
  static std::mutex* const mutex = new std::mutex;
  static auto* const kept = new RecentlyUsed<KeptLists>(kMaxKept, kMaxKeptBytes);
  const std::lock_guard<std::mutex> guard(*mutex);
  const bool capturing = is_capturing(stream);
  std::vector<int64_t> key = {stream.device_index(), rows, keys, p.mask.causal, p.q_len, p.k_len,
                              batches_of(p.structure, p.batch)};
  key.insert(key.end(), p.structure.words, p.structure.words + p.structure.size);
  auto* item = kept->find(key);
  if (item == nullptr) {
    TORCH_CHECK(!capturing, "the mask's tiles are not on ", stream.device(), " yet, and cannot be copied there while "
                "a CUDA graph is captured; call fused_attention once with this mask before the capture");
    KeptLists lists = copy_lists(p, rows, keys, stream);
    const int64_t bytes = lists.memory.numel() * 8;
    item = kept->put(std::move(key), std::move(lists), bytes);
  }
  item->pinned = item->pinned || capturing;  // the captured graph keeps pointers to them
  // After eviction, the allocator must not reuse the memory before this stream is done with it.
  item->value.memory.record_stream(stream.unwrap());
  return DeviceLists{item->value.view, item->value.memory, at::Tensor()};
}

// Starts from the lists of the structured mask, if there is one.
void add_boolean(const AttentionParams& p, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream,
                 DeviceLists* lists) {
  Classification c{};
  c.mask = p.mask;
  c.structure = lists->view;
  c.q_len = static_cast<int32_t>(p.q_len);
  c.k_len = static_cast<int32_t>(p.k_len);
  c.rows = rows;
  c.keys = keys;
  c.query_tiles = static_cast<int32_t>((p.q_len + rows - 1) / rows);
  c.batches = p.mask.batch_stride == 0 && lists->view.batch_stride == 0 ? 1 : static_cast<int32_t>(p.batch);
  c.heads = p.mask.head_stride == 0 ? 1 : static_cast<int32_t>(p.heads);
  c.capacity = static_cast<int32_t>((p.k_len + keys - 1) / keys);
  const int64_t slots = c.lists() * c.capacity;
  const at::Tensor memory = words_on(stream, c.lists() + slots + slots * rows * (keys / 64));
  int64_t* words = memory.data_ptr<int64_t>();
  c.ranges = reinterpret_cast<KeyTileRange*>(words);
  c.tiles = reinterpret_cast<KeyTile*>(words + c.lists());
  c.bits = reinterpret_cast<uint64_t*>(words + c.lists() + slots);
  C10_CUDA_CHECK(launch_classification(c, stream));
  lists->structure = lists->memory;
  lists->memory = memory;
  lists->view = c.view();
}

}  // namespace

DeviceLists make_lists(const AttentionParams& params, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream) {
  DeviceLists lists{};
  if (params.structure.exists()) lists = structured_lists(params, rows, keys, stream);
  if (params.mask.kind == MaskKind::kBool) add_boolean(params, rows, keys, stream, &lists);
  return lists;
}

}  // namespace fused_attention
