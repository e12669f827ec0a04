// One translation unit: most of the compile time of these files goes into torch's headers.
#include "checks.cpp"
#include "cpu/op.cpp"
#include "mask_ops.cpp"
#include "ops.cpp"
#ifndef FUSED_ATTENTION_CUDA
#include "cuda/missing.cpp"
#endif
