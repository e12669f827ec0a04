"""Pins, GPU, driver and purpose with the findings that the facts imply, rule by rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.stacks import check, severities

# A row is a purpose, the findings without infos, and the stacks with exactly these findings. A stack is
# `PINS on GPU with DRIVER`.
ROWS = """
# CUDA with the GPU, compiled: the nvcc must know it.
compile cuda-gpu error: cuda=10.2 on RTX 3090; cuda=11.0 on RTX 3090; cuda=10 on RTX 3090; cuda=10.2 on RTX 4080;
  cuda=11.7 on RTX 4080; cuda=11.7 on H100; cuda=9.2 on T4; cuda=13.0 on V100; cuda=13 on P100; cuda=12.0 on K80;
  cuda=11.0 on 3.0; cuda=12.6 on B200; cuda=12.8 on B300; cuda=12.8 on DGX Spark;
  cuda=11.0 on 8.7;  # a Tegra runs no desktop cubins
  cuda=11.0 on A100 and RTX 3090 and V100
compile fits: cuda=11.1 on RTX 3090; cuda=13.0 on RTX 3090; cuda=12 on RTX 3090; cuda=11.8 on RTX 4080;
  cuda=11.8 on H200; cuda=9.0 on V100; cuda=12.9 on V100; cuda=11.8 on K80; cuda=12.8 on B200; cuda=12.8 on RTX 5090;
  cuda=12.9 on DGX Spark
compile cuda-gpu warning: cuda=11 on RTX 3090; cuda=12.9 on 11.0; cuda=13.0 on 10.1
# The same for binaries that run, for PTX, and for what is only imported
run fits: cuda=11.0 on RTX 3090
run cuda-gpu error: cuda=10.2 on RTX 3090; cuda=13.0 on V100
ptx fits: cuda=10.2 on H100
ptx cuda-gpu error: cuda=13.0 on V100
import fits: cuda=10.2 on RTX 3090
# CUDA with the driver
compile fits: cuda=10.2 with 440.33.01; cuda=9.1 with 390.46; cuda=11.4 on A100 with 470.82.01;
  cuda=11.4.2 on A100 with 470.57.02; cuda=11.0.3 on A100 with 450.51.06; cuda=12.2 on A100 with 535.104.05;
  base=nvidia/cuda:11.4.3-devel-ubuntu20.04 on K80 with 470.182.03
compile cuda-driver error: cuda=10.2 with 440.33; cuda=10.2 with 418.87.00; cuda=10.1.243 with 418.39;
  cuda=11.8 on A100 with 450.51.06; cuda=12.1 on A100 with 470.57.02; cuda=13.0 on A100 with 575.57.08;
  cuda=13.4 on A100 with 570.0
compile cuda-driver warning: cuda=10.1 with 418.39; cuda=9.1 with 387.26; cuda=11.4 on A100 with 470.57.02;
  cuda=11.8 on A100 with 450.80.02; cuda=12.1 on A100 with 525.60.13; cuda=12.1 on A100 with 525.105.17;
  base=nvidia/cuda:11.8.0-devel-ubuntu22.04 on A100 with 470.57.02
ptx cuda-driver error: cuda=11.8 on A100 with 450.80.02
ptx fits: cuda=11.8 on A100 with 525.60.13
compile cuda-driver unknown: cuda=13.4 on A100 with 580.65.06
import fits: cuda=12.1 on A100 with 470.57.02
run cuda-driver error: torch=2.1.0 on A100 with 470.57.02
run fits: torch=2.1.0 on A100 with 525.60.13
compile cuda-driver warning, cuda-compat-geforce error:
  base=nvidia/cuda:11.8.0-devel-ubuntu22.04 on RTX 3090 with 470.57.02
compile cuda-driver warning, cuda-compat-gpu error:
  base=nvidia/cuda:11.7.1-devel-ubuntu22.04 on K80 with 470.182.03
# CUDA with the host compiler
compile cuda-gcc error: cuda=11.8,gcc=12; cuda=12.3,gcc=13; cuda=10.2,gcc=9; cuda=11.3,gcc=10.3; cuda=11.4.0,gcc=11;
  cuda=11.5,gcc=11.4; cuda=11.5,gcc=11; cuda=11.6,gcc=11.4; cuda=9.2,gcc=5.5; cuda=11.8,gcc=5; cuda=11,gcc=12;
  cuda=9.1,gcc=6  # its <tuple> fails
compile fits: cuda=11.8,gcc=11; cuda=12.0,gcc=12; cuda=12.4,gcc=13.2; cuda=10.2,gcc=8.4; cuda=11.3,gcc=10.2;
  cuda=11.5,gcc=10.3; cuda=11.4.1,gcc=11.1; cuda=11.5,gcc=11.1; cuda=11.6,gcc=11.2; cuda=9.2,gcc=5.4;
  cuda=10.0,gcc=5.5; cuda=11.8,clang=14; cuda=10.0,clang=6.0.1; cuda=9.1,gcc=5.4; cuda=9.2,gcc=6; cuda=9.0,clang=3.9;
  cuda=11.8,clang=19,gcc=11; cuda=11.8,distro=debian:12
run fits: cuda=11.8,gcc=12
compile cuda-gcc warning: cuda=11.2,gcc=10; cuda=11.5,gcc=11.2; cuda=11,gcc=11
compile cuda-clang error: cuda=11.8,clang=15; cuda=9.0,clang=4.0; cuda=12.2,clang=6.0
compile cuda-default-gcc warning, cuda-distro warning: cuda=12.1,distro=ubuntu:24.04
compile cuda-distro warning: cuda=12.4,distro=debian:12,gcc=12
# Base images
compile base-tag error: base=nvidia/cuda:11.3.0-devel-ubuntu18.04; base=nvcr.io/nvidia/cuda:10.2-devel-ubuntu18.04;
  base=nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04; base=nvidia/cuda:latest; base=nvidia/cuda;
  base=nvidia/cuda:11.8-devel-ubuntu22.04; base=nvidia/cuda:12.2.0-cudnn8-devel-ubuntu22.04;
  base=nvidia/cuda:12.4.1-cudnn9-devel-ubuntu22.04; base=nvidia/cuda:12.1.0-cudnn8-devel-ubuntu18.04
compile fits: base=docker.io/nvidia/cuda:11.3.1-devel-ubuntu18.04; base=nvidia/cuda:12.2.2-cudnn8-devel-ubuntu22.04;
  base=nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04; base=nvidia/cuda:12.1.0-devel-ubuntu18.04;
  base=nvidia/cuda:13.3.0-devel-ubuntu24.04; base=pytorch/pytorch:1.13.0-cuda11.6-cudnn8-devel on A100;
  base=nvidia/cuda:11.8.0-devel-ubuntu22.04,cuda=11.8; base=nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04,cudnn=8.9;
  base=debian:12,distro=debian:bookworm; base=ubuntu:jammy-20240111
import base-tag error: base=nvidia/cuda:11.0-base-ubuntu20.04
run fits: base=nvidia/cuda:11.0.3-base-ubuntu20.04; base=nvidia/cuda:11.8.0-runtime-ubuntu22.04
compile base-tag error, cuda-default-gcc warning: base=nvidia/cuda:11.8.0-devel-ubuntu16.04
compile base-tag unknown: base=nvidia/cuda:12.5.1-cudnn-devel-ubuntu22.04; base=nvidia/cuda:14.0.0-devel-ubuntu24.04;
  base=nvidia/cuda:11.8.0-devel-rockylinux8; base=debian:99; base=quay.io/someone/thing:1
compile base-flavour error: base=nvidia/cuda:11.8.0-runtime-ubuntu22.04; base=nvidia/cuda:11.8.0-base-ubuntu22.04;
  base=pytorch/pytorch:1.13.0-cuda11.6-cudnn8-runtime
compile cuda-gpu error, torch-gpu error: base=pytorch/pytorch:1.13.0-cuda11.6-cudnn8-devel on H100
compile base-pins error: base=nvidia/cuda:11.8.0-devel-ubuntu22.04,cuda=12.1;
  base=nvidia/cuda:11.8.0-devel-ubuntu22.04,distro=ubuntu:20.04;
  base=nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04,cudnn=8.6; base=debian:bookworm-slim,distro=debian:11
compile base-tag warning: base=ubuntu;
  base=nvidia/cuda:11.3.0-devel-ubuntu18.04@sha256:0000000000000000000000000000000000000000000000000000000000000000
# cuDNN
compile fits: cudnn=8,cuda=11.8; cudnn=8.9.7,cuda=12.2; cudnn=7.6.5,cuda=10.2; cudnn=7.6.5,cuda=9.0;
  cudnn=9.13,cuda=13.0; cudnn=8.2.0.53,cuda=11.3; cudnn=8.9.6.50
compile cudnn-cuda error: cudnn=7,cuda=11.8; cudnn=9,cuda=10.2; cudnn=8.9,cuda=13.0; cudnn=9.12,cuda=11.8
run fits: cudnn=9.10 on V100; cudnn=9.12 on T4
run cudnn-gpu error: cudnn=9.12 on V100
compile cudnn-release error: cudnn=8.10;  # 8.9.7 was followed by 9.0.0
  cudnn=7.7
import cudnn-release error: cudnn=8.9.8
# The GPU with the driver
run cuda-driver warning, gpu-driver error: cuda=12.8.0 on RTX 5090 with 565.57.01
run fits: cuda=12.8.0 on RTX 5090 with 570.86.16; torch=2.1.0+cu118 on H100 with 520.61.05;
  cuda=12.4 on V100 with 580.95.05; cuda=9.0 on GTX 1080 with 384.81
run gpu-driver error: torch=2.1.0+cu118 on H100 with 515.65.01; cuda=12.4 on V100 with 590.48.01;
  cuda=11.4.2 on K80 with 535.54.03
compile cuda-driver warning, gpu-driver error: cuda=11.8 on RTX 4090 with 515.65.01
import fits: cuda=12.8 on RTX 5090 with 535.54.03
# CUDA with the C library
compile cuda-distro warning, cuda-glibc error: cuda=12.9,distro=ubuntu:25.04,gcc=14;
  cuda=13.1,distro=ubuntu:25.10,gcc=15; cuda=12.8,distro=debian:13,gcc=13
compile cuda-distro warning: cuda=13.0,distro=ubuntu:25.04,gcc=14
compile fits: cuda=12.4,distro=debian:13,gcc=13; cuda=11.8,distro=rockylinux:8,gcc=8.5
run fits: cuda=12.8,distro=debian:13,gcc=13
import wheel-glibc error: torch=2.7.0,distro=centos:7; torch=1.2.0,distro=centos:6; dgl=2.1.0,distro=amazonlinux:2;
  torch=2.6.0+cu126,distro=ubuntu:18.04
import fits: torch=2.7.0,distro=almalinux:8; torch=1.2.0,distro=centos:7;
  torch=2.6.0,distro=ubuntu:18.04  # only its cu126 is manylinux_2_28
# What a block takes from the distribution
compile cmake-distro warning: cmake=3.30,distro=debian:12
import cmake-distro warning: cmake=3.30,base=debian:12
compile fits: cmake=3.25,distro=debian:12; cmake=3.25.1,distro=debian:12; cmake=3,distro=debian:12;
  cmake=3.22,distro=ubuntu:22.04; python=3.11.2,distro=debian:12;
  python=3.10.12,distro=ubuntu:22.04;  # its facts have no third number
  python=3.14.2,distro=debian:sid;  # which gets newer ones
  gcc=12.2.0,distro=debian:12; gcc=11.3,distro=debian:12; gcc=8,distro=debian:10
compile distro-release warning: cmake=3.25.2,distro=debian:12; python=3.11.9,distro=debian:12;
  gcc=12.4,distro=debian:12
compile gcc-distro unknown: gcc=13,distro=debian:10
run fits: cuda=9.2,gcc=8,distro=debian:10
compile cuda-distro unknown: cuda=10.2,gcc=8,distro=debian:10
compile llvm-distro unknown: llvm=14,distro=ubuntu:25.04
# The headers of torch 2.2.2 refuse gcc before 9
compile fits: torch=2.2.1,gcc=8.4; torch=1.9.1+cu111,gcc=5.4; torch=2.3.0,gcc=9
compile torch-cxx error: torch=1.12.0+cu113,gcc=5.4; torch=2.2.2,gcc=8.4; torch=2.4.0+cu121,gcc=8.5
# Frameworks with the libraries that they load
run tensorflow-cuda error: tensorflow=2.4.1,cuda=11.2; tensorflow=2.3.0,cuda=10.2
run fits: tensorflow=2.4.1,cuda=11.0,cudnn=8.0.5; tensorflow=2.10.0,cuda=11.6,cudnn=8.4; tensorflow=2.5.0 on RTX 4090;
  tensorflow=2.10.0 with 470.57.02; jax=0.4.25,cuda=11.8; jax=0.3.16,cuda=11.6.2 with 510.47.03
import fits: tensorflow=2.10.0,cuda=11.0; jaxlib=0.4.12+cuda12.cudnn89
run tensorflow-cudnn error: tensorflow=2.12.0,cuda=11.8,cudnn=8.5; tensorflow=2.15.0,cuda=12.4,cudnn=9.1.0
run tensorflow-gpu error: tensorflow=2.3.1 on RTX 3090; tensorflow=2.10.0 on H100
run tensorflow-driver error: tensorflow=2.15.0 with 470.57.02
run jax-cuda error: jax=0.4.26,cuda=11.8
run jax-cudnn error: jax=0.4.31,cudnn=8.9.7
run jax-driver error, cuda-driver warning: jax=0.3.16,cuda=11.6.2 with 470
run cuda-driver warning: jax=0.3.25,cuda=11.6.2 with 470
import jaxlib-build error: jaxlib=0.4.12+cuda12.cudnn88
run jax-gpu error: jax=0.3.25 on H100
# torch: wheel against GPU
run torch-gpu error: torch=1.8.0 on H100; torch=1.8.0+cu111 on H100; torch=1.8.0 on RTX 3090; torch=2.0.1 on H100;
  torch=2.1.0 on K80; torch=2.7.1 on RTX 5090; torch=2.6.0+cu126 on RTX 5090;
  torch=2.7.1+cu118 on RTX 5090;  # CUDA 11.8 has no sm_120
  torch=2.7.1+cu128 on V100; torch=2.13.0 on V100; torch=1.6.0 on RTX 3090; torch=1.7.0+cu110 on H100;
  torch=1.5.1 on RTX 3090;  # its PTX alone is not enough
  torch=1.3.1 on K40c; torch=1.7.1 on RTX 3090
run fits: torch=1.8.0+cu111 on RTX 3090; torch=1.8.0 on T4; torch=1.13.1 on A100; torch=2.0.1+cu118 on H100;
  torch=2.1 on H100; torch=2.1.0+cu118 on K80; torch=2.7.1+cu128 on RTX 5090; torch=2.8.0+cu128 on V100;
  torch=2.8.0 on DGX Spark; torch=2.13.0+cu126 on V100; torch=1.6.0 on V100; torch=1.5.1 on V100; torch=1.3.0 on K40c;
  torch=1.2.0 with 410.48; torch=2.3.1+cu118 on K80; torch=1.7.1+cu110 on RTX 3090; torch=2.13.0+cpu on H100
run torch-gpu warning: torch=1.8.0+cu111 on RTX 4090; torch=1.13.1 on RTX 4090;  # cuFFT of CUDA 11.7
  torch=1.12.1+cu116 on RTX 4090
compile torch-gpu error: torch=1.13.1 on H100
run torch-gpu unknown: torch=2.7.1+cu118 on RTX 4090; torch=2.15.0 on A100
run cuda-driver error: torch=1.3.0 with 410.48; torch=1.7.0 with 418.67
run torch-cudnn-gpu error: torch=2.4.0+cu118 on K80
import fits: torch=1.8.0 on H100
# torch: build, CUDA, compilers
compile torch-build error: torch=1.8.0+cu110
compile torch-build warning: torch=1.9.0+cu113
run fits: torch=2.9.0+cu129 on RTX 5090; torch=1.12.1+cu113 on RTX 3090; torch=1.13.0+cu116 on RTX 4090;
  torch=2.12.1+cu129; torch=1.8.0,cuda=11.1
run torch-gpu warning: torch=1.12.1+cu113 on RTX 4090
run torch-build error: torch=2.12.0+cu129
compile torch-build unknown: torch=1.8.0+cu101
compile fits: torch=2.13.0+cu132; torch=1.8.0,cuda=11.1; torch=1.9.0,cuda=11.1 on RTX 3090;
  torch=1.8.0+cu111,cuda=11.1; torch=2.1.0,cuda=11.8; torch=2.1.0+cu118,cuda=11.8; torch=2.13.0+cpu,cuda=11.8;
  torch=1.12.1,cuda=11.3,gcc=9; torch=1.11.0,cuda=11.3,gcc=10.2.1; torch=2.8.0,cuda=12.8,gcc=13;
  torch=2.11.0,cuda=12.8.1,gcc=13.3; torch=2.13.0+cpu,gcc=12
compile torch-cuda error: torch=1.8.0,cuda=11.0; torch=1.8.0+cu102,cuda=11.1; torch=2.1.0,cuda=11.3
compile torch-cuda warning: torch=1.9.0,cuda=11.4 on RTX 3090; torch=1.8.0+cu111,cuda=11.3; torch=2.1.0,cuda=12
compile torch-gcc-most error: torch=1.12.1,cuda=11.3,gcc=10.2.1
compile torch-gcc warning: torch=2.8.0,cuda=12.8,gcc=14
compile cuda-gcc error, torch-cuda warning: torch=2.3.0,cuda=12.3,gcc=13
compile torch-gcc error: torch=1.8.0,gcc=4.9
compile torch-gcc warning, torch-gcc-most error: torch=2.11.0,cuda=12.8.1,gcc=14
compile torch-cxx warning: torch=2.13.0+cpu,gcc=10
# DGL
import fits: dgl=0.6.1,torch=1.8.0; dgl=0.9.1,torch=1.9.0; dgl=1.1.2,torch=1.12.0; dgl=2.1.0,torch=2.2.1;
  dgl=0.9.1,python=3.10; dgl=0.6.1+cu110,cuda=11.1  # one name for all of CUDA 11
import dgl-torch error, dgl-pypi warning: dgl=0.7.1,torch=1.10.0; dgl=2.2.1,torch=2.3.1; dgl=2.4.0,torch=2.5.0
import dgl-pypi warning: dgl=0.7.2,torch=1.10.0
import dgl-torch error: dgl=0.6.1,torch=1.4.0; dgl=0.9.1,torch=1.8.0; dgl=1.1.2,torch=1.11.0; dgl=2.1.0,torch=2.2.2
import dgl-torch warning, dgl-pypi warning: dgl=2.2.1,torch=2.3.0; dgl=2.2.0,torch=2.1.0; dgl=2.4.0,torch=2.4.0
import dgl-python error: dgl=0.6.1,python=3.10; dgl=1.0.4,python=3.6
run dgl-gpu warning: dgl=0.6.1+cu102 on RTX 3090
run fits: dgl=0.6.1+cu110 on RTX 3090; dgl=0.6.1+cu102 on V100; dgl=0.4.1+cu101,cuda=10.1; dgl=0.5.3,gcc=4.8
run dgl-cuda warning: dgl=0.6.1 on V100
run dgl-libraries error: dgl=0.4.1+cu100,cuda=10.1
compile dgl-cmake warning: dgl=1.1.3,cmake=3.16
compile dgl-gcc error: dgl=0.5.3,gcc=4.8
compile fits: dgl=0.5.3,gcc=5.4
# TVM
compile tvm-llvm error: tvm=0.7,llvm=12; tvm=0.7,llvm=3.9; tvm=0.13,llvm=18; tvm=0.15,llvm=12.0.0; tvm=0.16,llvm=19;
  tvm=0.17,llvm=19; tvm=0.11,llvm=17  # a header of LLVM 16 is gone
compile fits: tvm=0.7,llvm=11; tvm=0.7,llvm=10.0.1; tvm=0.8,llvm=14; tvm=0.15,llvm=12.0.1; tvm=0.17,llvm=18;
  tvm=0.18,llvm=19; tvm=0.8,llvm=11,python=3.8; tvm=0.7,llvm=11,python=3.9; tvm=0.15,llvm=15,cmake=3.20;
  tvm=0.10,llvm=15,cmake=3.16; tvm=0.8,llvm=11,cmake=3.31; tvm=0.9,llvm=11,cmake=4.0
import tvm-llvm error, tvm-pypi warning: tvm=0.7,llvm=16
compile tvm-llvm warning: tvm=0.8,llvm=15; tvm=0.15,llvm=12; tvm=0.18,llvm=14; tvm=0.22,llvm=22
compile tvm-llvm unknown: tvm=0.27,llvm=22
compile tvm-backends warning: tvm=0.7; tvm=0.15,cmake=3.18
compile tvm-python warning: tvm=0.8,llvm=11,python=3.9
compile tvm-python error: tvm=0.24,llvm=20,python=3.9
compile tvm-cmake error: tvm=0.15,llvm=15,cmake=3.18; tvm=0.11,llvm=15,cmake=3.16;
  tvm=0.10,llvm=15,cmake=3.16,cuda=11.8
compile tvm-cmake warning: tvm=0.15,llvm=13,distro=debian:11
compile cmake-4 error: tvm=0.8,llvm=11,cmake=4.0
compile cmake-4 error, tvm-llvm error: tvm=0.8,llvm=21,distro=debian:forky
compile tvm-gcc error: tvm=0.10,llvm=15,gcc=6; tvm=0.26,llvm=20,gcc=9
run tvm-pypi warning: tvm=0.12
# Distributions
compile llvm-distro error: llvm=11,distro=debian:12; llvm=10,distro=ubuntu:16.04; llvm=10,distro=ubuntu:22.04
compile fits: llvm=11,distro=debian:11; gcc=11,distro=debian:12; gcc=7,distro=ubuntu:18.04
compile llvm-distro warning: llvm=17,distro=debian:11; llvm=9,distro=ubuntu:16.04; llvm=12,distro=ubuntu:18.04;
  llvm=16,distro=ubuntu:22.04; llvm=19,distro=ubuntu:24.04
import python-distro warning: python=3.8,distro=debian:12
import fits: python=3.11,distro=debian:12; python=3,distro=debian:12; python=3.8,distro=ubuntu:focal
compile gcc-distro warning: gcc=10,distro=debian:12; gcc=11,distro=ubuntu:18.04
# CUTLASS
compile fits: cutlass=2.9,cuda=11.6; cutlass=3.5.1,cuda=11.4; cutlass=4.5,cuda=13.0; cutlass=3.5,gcc=9,cuda=11.8;
  cutlass=3.5 on H100
compile cutlass-cuda warning: cutlass=2.11,cuda=10.2; cutlass=3.5,cuda=11.3; cutlass=4.2,cuda=13.0
compile cutlass-cuda error: cutlass=3.0,cuda=10.2; cutlass=2.5,cuda=9.0
compile cutlass-gcc error: cutlass=3.5,gcc=7.4,cuda=11.8; cutlass=3.5,gcc=8.5,cuda=11.8
compile cutlass-cmake warning: cutlass=3.5,cmake=3.18
compile cutlass-gpu warning: cutlass=2.9 on H100
# flash-attn
compile fits: flash_attn=2.8.3,cuda=11.8,torch=2.2.0+cu118,python=3.10 on A100; flash_attn=2.5.8,cuda=11.6 on A100;
  flash_attn=2.5.7,torch=2.3.0; flash_attn=2.8.2,torch=2.6.0; flash_attn=2.7.3,cuda=12.8 on RTX 5090;
  flash_attn=2.8.3,cuda=12.8 on B200
compile flash-attn-cuda error: flash_attn=2.8.3,cuda=11.6 on A100; flash_attn=0.2.8,cuda=12.1
run flash-attn-gpu error: flash_attn=2.5.6 on T4; flash_attn=2.2 on Quadro RTX 8000;
  flash_attn=2.7.0 on RTX 5090;  # sm_120 is in 2.7.3
  flash_attn=1.0.9 on V100
import flash-attn-wheel error: flash_attn=2.5.7,torch=2.3.0; flash_attn=2.5.8,torch=2.2.0;
  flash_attn=2.5.9,torch=2.4.0
import fits: flash_attn=2.5.7,torch=2.2.0; flash_attn=2.5.8,torch=2.2.2; flash_attn=2.6.0,torch=2.4.0;
  flash_attn=2.5.8,torch=2.3.0
run flash-attn-wheel error: flash_attn=2.8.2,torch=2.6.0+cu124
run fits: flash_attn=2.8.2,torch=2.6.0+cu126; flash_attn=2.7.4.post1,torch=2.6.0+cu124; flash_attn=1.0.9 on T4
import flash-attn-torch error: flash_attn=2.8.3,torch=2.1.0
compile flash-attn-same-cuda error, torch-cuda warning: flash_attn=1.0.9,torch=2.0.1+cu117,cuda=11.8
compile flash-attn-gpu error, cuda-gpu error: flash_attn=2.8.3,cuda=12.6 on B200
compile flash-attn-gpu error: flash_attn=2.5.8,cuda=12.8 on B200
# What no fact covers
compile no-fact unknown: cuda=99 on A100 with 470.57.02; distro=fedora:40,llvm=14; tvm=0.99,llvm=12; gcc=40,cuda=11.8;
  gcc=40.0,cuda=11.8
compile cuda-release error: cuda=12.7 on H100
import no-fact unknown: torch=9.9.9,python=3.8
run torch-gpu error: torch=1.8.7 on H100; torch=1.13.1.post1 on H100; torch=1.0.1+cu90 on RTX 2080 Ti
run torch-release error: torch=1.15.0 on H100
import torchvision-torch error: torchvision=0.9.0.post1,torch=1.7.0
import tvm-python warning, tvm-pypi warning: tvm=0.14.0.post1,python=3.6
run no-fact unknown: torch=3.0.0 on H100; torch=0.3.1 on H100
run flash-attn-glibc error: flash_attn=2.8.2,distro=ubuntu:20.04
compile flash-attn-glibc warning: flash_attn=2.8.2,distro=ubuntu:20.04
run fits: flash_attn=2.8.2,distro=ubuntu:22.04; flash_attn=2.7.4.post1,distro=ubuntu:20.04; torch=1.0.1+cu90 on V100;
  torch=1.0.1+cu100 on RTX 2080 Ti; torch=2.0.1+cu118,cudnn=8.7.0; torch=2.0.1+cu118,cudnn=8;
  torch=2.0.1+cpu,cudnn=8.2.4; torch=1.7.1+cu101,cudnn=7.5.0
run torch-cudnn error: torch=2.0.1+cu118,cudnn=8.2.4
compile cuda-gcc error: gcc=9.0,cuda=10.2
compile fits: gcc=8.0.0,cuda=10.2
# Wheels with Python, glibc, each other
import fits: torch=1.8.0,python=3.8; torch=1.8,python=3.9.2; torch=1.8.1+cu111; torch=1.13.0,python=3.11;
  torch=2.7.0,distro=ubuntu:20.04; vllm=0.5.3,distro=ubuntu:20.04; jaxlib=0.7.0,distro=ubuntu:16.04;
  torchvision=0.9.0,torch=1.8.0; torchvision=0.24.0+cpu,torch=2.9.0+cpu; transformers=4.46.3,python=3.8;
  numpy=1.19.5,python=3.9; numpy=2.0.1,torch=2.3.0; numpy=1.26,torch=2.2.0; transformers=4.34.1,tokenizers=0.14.1;
  transformers=4.30.2,python=3.7; transformers=4.16.2,python=3.12;  # takes tokenizers that is newer than itself
  tokenizers=0.13.2,python=3.11; tokenizers=0.22.0,python=3.14  # abi3
import torch-python error: torch=1.8.0,python=3.10; torch=2.15.0,python=3.10
import torch-index warning: torch=1.8.2+cu111
import torch-python warning: torch=1.8.0,python=3
import wheel-glibc error: torch=2.7.0,distro=ubuntu:18.04; vllm=0.5.2,distro=ubuntu:20.04;
  jaxlib=0.7.1,distro=ubuntu:16.04; dgl=2.1.0,distro=ubuntu:16.04
import torchvision-torch error: torchvision=0.9.1,torch=1.8.0; torchvision=0.10.0,torch=1.8.0;
  torchvision=0.15.2+cu117,torch=2.0.0+cu118; torchvision=0.15.2+cu118,torch=2.0.0+cu118;
  torchvision=0.9.0+cu111,torch=1.8.0+cu102; torchvision=0.24.0,torch=2.9.0+cpu  # PyPI's is for CUDA
import torchvision-torch warning: torchvision=0.15.2,torch=2.0
import torchvision-python error: torchvision=0.9.0,python=3.11
import transformers-python error: transformers=4.47.1,python=3.8; transformers=5.0.0,python=3.9;
  transformers=4.31.0,python=3.7; transformers=4.30.2,python=3.12
import numpy-python warning: numpy=1.19.2,python=3.9; numpy=2,python=3.9
import numpy-python error: numpy=1.23.5,python=3.12
import numpy-projects error: numpy=2.0.1,torch=2.2.0
compile numpy-projects error: numpy=1.24,tvm=0.7,llvm=11
compile fits: numpy=1.23,tvm=0.7,llvm=11; numpy=1.24,tvm=0.8,llvm=11
import transformers-tokenizers error: transformers=4.6.1,tokenizers=0.8.1rc1; transformers=4.30.2,tokenizers=0.11.3;
  transformers=4.44,tokenizers=0.20.0
import tokenizers-python error: tokenizers=0.13.1,python=3.11; tokenizers=0.22.0,python=3.8
# The CUDA and cuDNN in the version of jaxlib
run jaxlib-cudnn error: jaxlib=0.1.65+cuda112,cudnn=8.0.5
run fits: jaxlib=0.1.65+cuda112,cuda=11.2,cudnn=8.1.0; jaxlib=0.4.7+cuda11.cudnn86,cuda=11.8,cudnn=8.6.0;
  jaxlib=0.1.74+cuda11.cudnn82,cuda=11.3 with 470.82.01; jax=0.3.25,cuda=11.8 on RTX 4090; jaxlib=0.4.7,cudnn=8.0.5
run jaxlib-cuda error: jaxlib=0.4.7+cuda12.cudnn88,cuda=11.8
run jaxlib-driver error: jaxlib=0.1.74+cuda11.cudnn82,cuda=11.3 with 465.19.01
run jax-ptxas error: jax=0.3.25,cuda=11.3 on RTX 4090
# What a package requires of others
import jax-jaxlib error: jax=0.4.23,jaxlib=0.4.25;  # jaxlib is newer
  jax=0.4.23,jaxlib=0.4.18
import fits: jax=0.4.23,jaxlib=0.4.20+cuda12.cudnn89; jax=0.4.26,numpy=2.0.1; jax=0.4.20,python=3.12;
  torch=2.1.2,triton=2.1.0; torch=2.1.0+cpu,triton=3.0.0; triton=3.1.0 on P100;
  torch=1.4.0+cu100,torchvision=0.5.0+cu100;  # no page lists that build
  tensorflow=2.18.0,numpy=2.0.1; tensorflow=2.5.0,numpy=1.23.4; tensorflow=2.4.1,numpy=1.19;  # some patch of it
  tensorflow=2.4,python=3.8
import jax-numpy error: jax=0.4.25,numpy=2.0.1
import jax-python error: jax=0.4.13,python=3.12;  # no jaxlib that it takes has one
  jax=0.4.31,python=3.9
import torch-triton error: torch=2.1.0,triton=3.0.0
run torch-triton warning: torch=2.0.1,triton=2.1.0
run torch-triton error: torch=2.0.1,triton=2.2.0
run torch-cudnn error: torch=0.4.1,cudnn=7.6.5  # a newer minor, too
run fits: torch=0.4.1,cudnn=7.1; torch=1.0.0+cu90,cudnn=7.6.5; triton=3.1.0 on V100
run triton-gpu error: triton=3.1.0 on P100
import torch-build unknown: torch=1.5.0+cu100
import tensorflow-python error: tensorflow=2.4.1,python=3.9
import tensorflow-numpy error: tensorflow=2.15.0,numpy=2.0.1; tensorflow=2.4.1,numpy=1.20.3;
  tensorflow=2.6.0,numpy=1.24
# Extensions that look for torch's CUDA
compile apex-same-cuda error, torch-cuda warning: apex=0.1,torch=2.1.0+cu121,cuda=12.3
compile fits: apex=0.1,torch=2.1.0+cu121,cuda=12.1
import fits: apex=0.1,torch=2.1.0+cu121,cuda=12.3; flash_attn=2.4.2,torch=2.1.1+cu121;
  flash_attn=2.7.4.post1,torch=2.6.0+cu124
run bitsandbytes-torch error: bitsandbytes=0.42.0,torch=2.4.0+cu124;
  bitsandbytes=0.44.1,torch=2.6.0+cu124  # triton.ops
run bitsandbytes-cuda error: bitsandbytes=0.39.1,cuda=12.2 on A100
run fits: bitsandbytes=0.39.1,cuda=12.2,torch=2.0.1+cu118 on A100;  # torch's counts
  bitsandbytes=0.44.1,cuda=12.8; bitsandbytes=0.43.1,torch=2.4.0+cu124; bitsandbytes=0.45.5,torch=2.6.0+cu124;
  bitsandbytes=0.50.2,torch=2.8.0+cu129  # another library of CUDA 12
import flash-attn-wheel error: flash_attn=2.4.2,torch=2.1.0+cu121; flash_attn=2.5.0,torch=2.2.0
# Wheels that are made for one torch
import fits: torchaudio=2.0.2,torch=2.0.1+cu118; torchaudio=2.11.0,torch=2.12.0;
  torchaudio=0.12.1+cu113,torch=1.12.1+cu113; xformers=0.0.23+cu118,torch=2.1.1+cu118; torchtext=0.18.0,torch=2.3.1;
  xformers=0.0.22,torch=2.0.1; xformers=0.0.22.post7,torch=2.1.0; xformers=0.0.22.post4,torch=2.1.0;
  xformers=0.0.26,torch=2.2.2; transformers=4.39.1,torch=1.12.1; transformers=4.49.0,torch=2.0.1;
  transformers=4.56.2,torch=2.1.2; transformers=5.1.0,torch=2.4.1; transformers=4.34.1,python=3.12;
  transformers=4.57.1,python=3.14
import torchaudio-torch error: torchaudio=2.0.1,torch=2.0.1; torchaudio=0.12.1+cu113,torch=1.12.1+cu116
import xformers-torch warning: xformers=0.0.23,torch=2.1.0
import xformers-torch error: xformers=0.0.23,torch=2.2.1; xformers=0.0.22.post4+cu118,torch=2.1.0+cu121;
  xformers=0.0.26,torch=2.2.2+cpu; xformers=0.0.22,torch=2.1.0; xformers=0.0.26.post1,torch=2.3.1;
  xformers=0.0.26,torch=2.3.0
run xformers-torch error: xformers=0.0.23.post1,torch=2.1.2+cu118  # PyPI's is for CUDA 12
run fits: xformers=0.0.23.post1,torch=2.1.2+cu121; xformers=0.0.27.post2,torch=2.4.0+cu124;  # the same major
  vllm=0.3.2,torch=2.1.2+cu121,python=3.10 on A100; vllm=0.3.2+cu118,torch=2.1.2+cu118; vllm=0.6.0 on V100
import torchtext-torch error: torchtext=0.18.0,torch=2.6.0
import torchtext-python error: torchtext=0.8.0,python=3.9
import vllm-torch error: vllm=0.3.2,torch=2.2.1
run vllm-torch error: vllm=0.3.2,torch=2.1.2+cu118
import vllm-xformers error: vllm=0.8.5,xformers=0.0.30
import vllm-transformers error: vllm=0.8.5,transformers=4.50.3
import vllm-python error: vllm=0.8.5,python=3.13
run vllm-gpu error: vllm=0.6.0 on P100
import torchaudio-python error: torchaudio=0.13.1,python=3.11
import no-fact unknown: xformers=0.0.22.post9,torch=2.1.0; tokenizers=0.13.9,python=3.11
import transformers-python error: transformers=4.27.4,python=3.12
import transformers-torch error: transformers=4.50.3,torch=2.0.1; transformers=4.35.2,torch=1.7.1;
  transformers=4.39.1,torch=1.11.0; transformers=4.56.2,torch=2.0.1; transformers=5.1.0,torch=2.3.1
# What a release requires
import accelerate-requires error: accelerate=1.3.0,torch=1.13.1; accelerate=1.3,torch=1.13.1
import fits: accelerate=1.3.0,torch=2.0.1; datasets=2.15.0,huggingface_hub=1.0.0; tensorflow=2.15.0,keras=2.15.0;
  vllm=0.3.0,pydantic=2.0
import datasets-requires error: datasets=2.14.5,huggingface_hub=1.0.0
import tensorflow-requires error: tensorflow=2.15.0,keras=3.0.3
import vllm-requires error: vllm=0.2.7,pydantic=2.0
# What it requires on each Python that has both, where none is pinned
import opencv-python-requires error: opencv_python=4.12.0.88,numpy=1.26.0
import fits: opencv_python=4.12.0.88,numpy=1.24;  # Python 3.8 has both
  opencv_python=4.12.0.88,numpy=2.1.0
# Python, by the metadata and by the wheels
import accelerate-python error: accelerate=1.1.0,python=3.8
import fits: accelerate=1.1.0,python=3.9; pandas=1.5.3,python=3.11
import pandas-python error: pandas=1.5.3,python=3.12
# What a third package makes impossible
import requires-through error: transformers=4.34.1,huggingface_hub=0.20.3
import fits: transformers=4.37.2,huggingface_hub=0.20.3; datasets=2.19.0,accelerate=0.33.0
import requires-together error: datasets=1.14.0,accelerate=0.33.0
# What no metadata says
import known-clash error: pandas=2.1.4,numpy=2.0; peft=0.16.0,accelerate=0.30.1; gym=0.21.0,setuptools=67.0.0;
  gym=0.20.0,setuptools=67.0.0; peft=0.14.0,transformers=4.37.2; opencv_python=4.10.0.82,numpy=2.0;
  deepspeed=0.14.3,numpy=2.0; lightning=2.0.4,pydantic=2.0; librosa=0.7.2,numba=0.50.0;
  transformers=4.52.3,accelerate=1.2.1; diffusers=0.34.0,peft=0.14.0; numba=0.46.0,llvmlite=0.31.0;
  tensorflow=2.6.0,keras=2.7.0
import fits: pandas=2.2.2,numpy=2.0; pandas=2.1.4,numpy=1.26; peft=0.10.0,accelerate=0.30.1;
  gym=0.21.0,setuptools=66.0.0; peft=0.13.2,transformers=4.37.2; opencv_python=4.10.0.84,numpy=2.0;
  deepspeed=0.14.3,numpy=1.26; lightning=2.0.6,pydantic=2.0; librosa=0.7.2,numba=0.48.0;
  transformers=4.52.3,accelerate=1.3.0; transformers=5.0.0,huggingface_hub=1.5.0; diffusers=0.33.1,peft=0.14.0;
  diffusers=0.34.0,peft=0.15.0; numba=0.46.0,llvmlite=0.30.0; tensorflow=2.6.0,keras=2.6.0
compile known-clash error: torch=2.0.1,setuptools=70.0.0; torch=2.0.1,setuptools=82.0.0
run fits: torch=2.0.1,setuptools=70.0.0; tensorflow=2.1.0,h5py=2.10.0; transformers=4.12.5,deepspeed=0.5.3
compile fits: torch=2.0.1,setuptools=71.0.0; torch=2.0.1,setuptools=81.0.0
import transformers-requires error: transformers=4.56.2,huggingface_hub=1.5.0
run known-clash error: tensorflow=2.1.0,h5py=3.0.0; transformers=4.14.1,deepspeed=0.5.3
# What mmdet compares when it is imported
import mmdet-requires error: mmdet=3.2.0,mmcv=1.3.0; mmdet=3.3.0,mmcv=2.2.0
import fits: mmdet=3.3.0,mmcv=2.1.0; mmdet=2.28.2,mmcv_full=1.7.1
# CUDA of the libraries that a wheel loads
run cupy-cuda11x-cuda error: cupy_cuda11x=12.0.0,cuda=12.1
run fits: cupy_cuda12x=12.0.0,cuda=12.1; onnxruntime_gpu=1.19.0,cuda=12.1
run onnxruntime-gpu-cuda error: onnxruntime_gpu=1.16.0,cuda=12.1
# The GPU, by the torch that a package requires
run vllm-torch-gpu error: vllm=0.6.0 on RTX 5090
run fits: vllm=0.9.2 on RTX 5090; vllm=0.6.0 on H100
"""


def _rows() -> Iterator[object]:
    """The head and the stacks of each row; an indented line continues a row."""
    for line in re.sub(r" *# .*", "", ROWS).replace("\n  ", " ").splitlines():
        if line:
            head, _, stacks = line.partition(": ")
            yield pytest.param(head, [stack.strip() for stack in stacks.split(";")], id=head)


def _findings(purpose: str, text: str) -> dict[str, str]:
    text, _, driver = text.partition(" with ")
    pins, _, gpus = text.partition(" on ")
    return severities(check(pins, gpus.replace(" and ", ";"), purpose, driver or None))


@pytest.mark.parametrize(("head", "stacks"), list(_rows()))
def test_rules(head: str, stacks: list[str]) -> None:
    purpose, _, text = head.partition(" ")
    expected = {} if text == "fits" else dict(finding.split(" ") for finding in text.split(", "))
    assert {stack: _findings(purpose, stack) for stack in stacks} == dict.fromkeys(stacks, expected)


def test_what_the_base_and_the_gpu_of_a_recipe_imply() -> None:
    (finding,) = check("cudnn=8,base=nvidia/cuda:11.8.0-devel-ubuntu22.04")
    assert (finding.rule, finding.severity) == ("base-cudnn", "info")
    assert severities(check("tvm=0.7,llvm=11", "RTX 3090", needs_gpu="required")) == {"tvm-backends": "warning"}


def test_a_requirement_on_other_pythons_does_not_count() -> None:
    assert "pandas-requires" in {f.rule for f in check("pandas=1.5.3,numpy=1.20.3,python=3.10", "", "import")}
    assert check("pandas=1.5.3,numpy=1.20.3,python=3.9", "", "import") == []
