// How our matrix descriptors differ from CuTe's for the same layouts: the compiler folds each to a store of zero.
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>

#include "cuda/hopper/layout.h"

using namespace cute;
namespace hopper = fused_attention::hopper;

extern __shared__ __align__(1024) char shared_memory[];

// Queries and keys: [128, D], columns contiguous. Values: their transpose [D, 128], whose rows are contiguous.
template <int D>
__global__ void differences(uint64_t* out) {
  using T = bfloat16_t;
  using SM90::GMMA::Major;
  using SM90::GMMA::make_gmma_desc;
  T* shared = reinterpret_cast<T*>(shared_memory);
  const uint32_t base = cast_smem_ptr_to_uint(shared_memory);
  const auto rows_layout = tile_to_shape(GMMA::Layout_K_SW128_Atom<T>{}, Shape<_128, Int<D>>{});
  const auto columns_layout = tile_to_shape(GMMA::Layout_MN_SW128_Atom<T>{}, Shape<Int<D>, _128>{}, Step<_2, _1>{});
  const auto keys = make_tensor(make_smem_ptr(shared), rows_layout);
  const auto values = make_tensor(make_smem_ptr(shared), columns_layout);
  // The second step of the last panel, and the fourth of the values.
  const int panel = D / hopper::kPanel - 1;
  const auto step = local_tile(keys, Shape<_128, _16>{}, make_coord(0, panel * 4 + 1));
  const auto rows = local_tile(keys, Shape<_64, _16>{}, make_coord(1, panel * 4 + 1));
  const auto columns = local_tile(values, Shape<Int<D>, _16>{}, make_coord(0, 3));
  const uint32_t offset = base + panel * hopper::kPanelBytes + 32;
  out[0] = uint64_t(make_gmma_desc<Major::K>(step)) ^ hopper::rows_descriptor(offset);
  out[1] = uint64_t(make_gmma_desc<Major::K>(rows)) ^
           hopper::rows_descriptor(offset + hopper::kWarpgroupRows * hopper::kRowBytes);
  out[2] = uint64_t(make_gmma_desc<Major::MN>(columns)) ^
           hopper::columns_descriptor<D>(base + 3 * hopper::kStep * hopper::kRowBytes);
}

template __global__ void differences<64>(uint64_t*);
template __global__ void differences<128>(uint64_t*);
