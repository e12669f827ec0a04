"""What every block renders to. `pytest --update-golden` writes tests/golden anew."""

from __future__ import annotations

import pytest
import yaml

from reprokit.image.render import render
from reprokit.recipe.blocks import block_names
from tests.support.rendering import source, target

# Golden text: a variant in which the block stands. `NAME-OTHER` is another use of the block NAME.
VARIANTS = yaml.safe_load(r"""
base: {}
base-nvidia: {base: &nvidia "nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04", pins: {distro: "ubuntu:22.04"},
  blocks: [base: {bash_as_sh: true}]}
apt: {apt: [make, "g++=4:12.2.0-3"], blocks: [apt]}
python: {pins: {python: "3.11"}, blocks: [python]}
python-system: {pins: {python: "3.9"}, blocks: [python: {system_site_packages: true}]}
wheels: {pins: {python: "3.11"}, wheels: [numpy==1.26.4, h5py==3.10.0],
  wheel_indexes: ["https://example.org/simple", "https://example.org/links.html"], blocks: [python, wheels]}
wheels-ranges:
  pins: {python: "3.11"}
  wheels:
    - numpy==1.26.4
    - scipy[all]>=1.7,<2
    - tomli; python_version < "3.11"
    - "tool[x] @ git+https://github.com/o/tool@0123456789012345678901234567890123456789#subdirectory=py ;\
      \ python_version > '3'"
  blocks: [python, wheels]
wheels-sdists: {pins: {python: "3.11"}, wheels: [setuptools==68.2.2, wheel==0.41.3], blocks: [python, wheels],
  sdists: [{package: GPUtil==1.4.0, requires: [numpy>=1.16]}, {package: docopt==0.6.2}]}
conda: {conda: [numpy=1.19, mkl==2020.4, python=3.6.13=hffdb5ce_0_cpython], conda_channels: [conda-forge, pytorch],
  blocks: [conda]}
conda-ranges: {conda: [mkl=2021.4.0, "numpy>=1.20,<2", scipy=1.7.*], blocks: [conda]}
files:
  files:
    - {name: model.bin, urls: ["https://example.org/model.bin?a=1&b=2"], path: /opt/model/weights.bin}
    - name: src.tar.xz
      urls: ["https://example.org/src.tar.xz", "http://mirror.example.org/src.tar.xz"]
      sha256: "0000000000000000000000000000000000000000000000000000000000000000"
      path: /opt/src
      unpack: true
    - {name: data.zip, urls: ["https://example.org/data.zip"], path: /opt/data, unpack: true}
  blocks: [files]
imports: {pins: {python: "3.11"}, blocks: [python, imports: {modules: [json, os.path]}]}
git:
  pins: {python: "3.11"}
  sources:
    - {name: artifact, path: /opt/artifact}
    - &tvm {name: tvm, path: /opt/tvm, submodules: true, keep: false}
    - &cutlass {name: cutlass, path: /opt/cutlass, subset: [CMakeLists.txt, include]}
  blocks: [python, git: {python_paths: [/opt/artifact/python], writable: [artifact]}]
git-ssh: {sources: [{name: a, path: /a, git: "git@git.example.org:team/a.git"}], blocks: [git]}
cuda: {pins: &cuda {cuda: "11.8", gcc: "11"}, blocks: [cuda]}
cuda-components: {pins: *cuda, blocks: [cuda: {components: [cublas, cusolver, cusparse, static]}]}
cuda-nvidia: {base: *nvidia, pins: *cuda, blocks: [cuda]}
cudnn: {base: *nvidia, pins: {cuda: "11.8", gcc: "11", cudnn: 8.9.6.50}, blocks: [cuda, cudnn]}
cudnn-wheel: {pins: {python: "3.11", cuda: "11.8", gcc: "11", cudnn: 8.9.6.50},
  blocks: [python, cuda, wheels, cudnn: {from: wheel}]}
llvm: {pins: {llvm: "14"}, blocks: [llvm]}
llvm-library: {pins: {llvm: "14"}, blocks: [llvm: {dev: false}]}
tvm: {pins: {python: "3.9", llvm: "11", tvm: 0.7.0, gcc: "10", cmake: "3.18", numpy: "1.19"}, sources: [*tvm],
  blocks: [python, llvm, git, tvm]}
tvm-cuda: {base: *nvidia, pins: {python: "3.10", llvm: "14", tvm: 0.8.0, gcc: "11", cuda: "11.8", cudnn: 8.9.6},
  sources: [*tvm], blocks: [python, cuda, cudnn, llvm, git, tvm: {cublas: true, cudnn: true}]}
cmake:
  pins: {python: "3.9", gcc: "10", cmake: "3.18"}
  sources:
    - {name: project, path: /opt/project, submodules: true, keep: false}
    - {name: zlib, path: /fetched/src/zlib, ref: v1.2.11, keep: false}
  blocks:
    - python
    - git
    - cmake:
        source: project
        defines: [OPENMP=ON, FLAGS=-O2 -g]
        targets: [all, tests]
        packages: [libgomp1]
        fetches: [zlib]
        products: [build/bin, include]
        wheel: build/dist/project-1.0-py3-none-any.whl
cmake-cuda:
  pins: {gcc: "11", cmake: "3.25", cuda: "11.8"}
  sources: [{name: project, path: /opt/project, keep: false}]
  blocks:
    - cuda
    - git
    - cmake: {source: project, without: [3rd/cub], build_dir: out, products: [out/lib/libproject.so]}
make:
  pins: {gcc: "12"}
  sources: [{name: solver, path: /opt/solver, patches: [fix.patch, patches/port.patch], keep: false}]
  build_args: {SIZE: large one}
  blocks:
    - git
    - make:
        source: solver
        folder: src
        variables: [CFLAGS=-O2 -g]
        targets: [all]
        packages: [libgomp1]
        products: [bin/solver, /usr/local/lib/libsolver.so]
autotools:
  pins: {gcc: "12"}
  sources: [{name: tool, path: /opt/tool, keep: false}, {name: other, path: /opt/other, keep: false}]
  blocks:
    - git
    - autotools: {source: tool, configure: [--disable-nls], products: [/usr/local/bin/tool]}
    - autotools: {source: other, autoreconf: true, products: [include/other.h]}
run:
  sources: [{name: artifact, path: /opt/artifact}]
  build_args: {JOBS: "2"}
  blocks:
    - git
    - run:
        source: artifact
        commands: [./build.sh --jobs $JOBS | tee log, test -s out/model]
        packages: [gawk]
        products: [out]
    - run: {in_image: true, commands: [echo 1 > /opt/ready], products: [/opt/ready]}
run-secrets: {blocks: [run: {commands: [fetch], products: [/opt/data], secrets: [API_TOKEN, KEY]}]}
mkl: {pins: {python: "3.9"}, wheels: [mkl==2021.4.0], blocks: [python, wheels, mkl]}
torch: {pins: {python: "3.8", torch: 1.8.0+cu111}, blocks: [python, wheels, torch]}
dgl: {pins: {python: "3.8", torch: 1.12.1+cpu, dgl: 0.9.1}, blocks: [python, wheels, torch, dgl]}
cutlass: {pins: {cutlass: 2.9.0}, sources: [*cutlass], blocks: [git, cutlass]}
extension: {pins: {python: "3.11", torch: 2.13.0+cpu, gcc: "12"}, blocks: [python, wheels, torch, extension]}
extension-cuda: {pins: {python: "3.11", torch: 1.13.1, gcc: "11", cuda: "11.8"}, wheels: [ninja==1.11.1],
  blocks: [python, cuda, wheels, torch: {cuda: "11.7"}, extension]}
extension_package:
  pins: {python: "3.11", gcc: "12"}
  sources: [{name: package, path: /opt/package, keep: false}]
  blocks: [python, git, extension_package: {source: package, package: Some-Package, in_place: true}]
extension_package-cuda:
  base: *nvidia
  pins: {python: "3.10", gcc: "11", cuda: "11.8", torch: 2.1.2+cu118, flash_attn: 2.5.8}
  sources: [{name: flash, path: /opt/flash}]
  wheels: [ninja==1.11.1]
  blocks:
    - python
    - cuda
    - wheels
    - torch
    - git
    - extension_package:
        source: flash
        package: flash-attn
        env: [FORCE_BUILD=TRUE, TORCH_CUDA_ARCH_LIST=8.0;9.0]
        packages: [git]
        memory_per_job: "9"
""")


def test_every_block_has_one():
    assert set(block_names()) <= set(VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_blocks(golden, tmp_path, name):
    for patch in ("fix.patch", "patches/port.patch"):
        (tmp_path / patch).parent.mkdir(exist_ok=True)
        (tmp_path / patch).write_text("--- a/x\n+++ b/x\n")
    sources = [source(**each) for each in VARIANTS[name].get("sources", [])]
    rendered = render(target(tmp_path, **{**VARIANTS[name], "sources": sources}))
    lines = rendered.dockerfile.splitlines(keepends=True)
    block = next(b for b in block_names() if name == b or name.startswith(b + "-"))
    text = "".join("".join(lines[first - 1 : last]) for first, last, owner in rendered.spans if owner == block)
    golden(f"blocks/{name}.Dockerfile", text.strip("\n") + "\n")
