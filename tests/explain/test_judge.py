"""The first cause, not the last consequence; and no accusation of a success."""

from __future__ import annotations

import pytest
import yaml

from reprokit.explain.judge import explain
from reprokit.explain.load import FOLDER, matcher
from reprokit.explain.model import Cause, Explanation
from tests.support import logs

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 3, in go\n    raise OddFlux(3)\n'
MISSING = "libodd.so.1: cannot open shared object file: No such file or directory\n"
CUDNN = "b.cc:9:10: fatal error: cudnn.h: No such file or directory\n"
REFUSED = "odd-index | Post http://127.0.0.1:3090/list: dial tcp 127.0.0.1:3090: connect: connection refused\n"
DISCOVERY = "ERRO[0000] failed to discover channels: not found\n"
CPP = "terminate called after throwing an instance of 'odd::Flux'\n"
IGNORED = "test acc 0.81\nException ignored in: <function A.__del__ at 0x7f>\n"
INFO = "step 1\nI0101 10:00:00.000000 12 run.py:11] "
NO_KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
NVML = "Failed to initialize NVML: Unknown Error\n" + "step done\n" * 6000
PMIX = "PMIx was unable to find a usable compression library\non the system.\n\n"
MKDIR = "mkdir: cannot create directory '/run/odd': Permission denied"
PARALLEL = (
    "collect2: fatal error: cannot find 'ld'\nmake[2]: *** [libflux.so] Error 1\n"
    "make[1]: *** Waiting for unfinished jobs....\n[100%] Built target flux_objs\n"
)
CERTIFICATE = "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]')"
RETRYING = f"WARNING: Retrying (Retry(total=0)) after connection broken by '{CERTIFICATE}'\n"
NO_TORCH = "ERROR: No matching distribution found for torch==1.10+cu111\n"
INSIDE_PACKAGE = (
    'Traceback (most recent call last):\n  File "main.py", line 3, in go\n    quaint.step(4)\n'
    '  File "/opt/lib/python3.9/site-packages/quaint/core.py", line 90, in step\n    zip(a, b)\n'
    "TypeError: zip argument #2 must support iteration\n"
)
CHANNELS = (
    "Found conflicts!\nPackagesNotFoundError: The following packages are not available from current channels:\n\n"
    "  - odd-package=1.2\n\nCurrent channels:\n"
)
NCCL = "RuntimeError: NCCL error in: a.cpp:12, unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
NCCL += "ncclSystemError: System call or external library call failed or device error.\n"
ABORTED = "socketStartConnect: Connect to 1.1.1.1<3> failed : Software caused connection abort"


def explained(text: str, failed: bool | None = None) -> Explanation:
    return explain(logs.stream(text), failed)


def test_every_rule_explains_its_example_first():
    first = {rule.id: [cause.rule for cause in explained(rule.example).causes][:1] for rule in matcher().rules.values()}
    assert first == {name: [name] for name in first}


# A log, and of its first cause the rule, the line and a part of the sentence.
STEP = "##[group]Run ./odd\n"
STEP_FAILED = "##[error]Process completed with exit code 1.\n"
FIRST_CAUSES: dict[str, str] = {
    # Of chained exceptions the first.
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    d[7]\nKeyError: 7\n\n'
    "During handling of the above exception, another exception occurred:\n\n"
    'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nOddFlux: cannot go on'
    "\n": "python-exception:4: KeyError, a dictionary",
    # An exception stands above the source line that raises it.
    'Traceback (most recent call last):\n  File "a.py", line 1\n    raise RuntimeError("Ninja is required to load C++ '
    'extensions")\nRuntimeError: Ninja is required to load C++ extensions\n': "torch-jit-no-ninja:4: ",
    # The user's own frame is named, too.
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    go(cfg)\n'
    '  File "/env/lib/python3.9/site-packages/flux/core.py", line 8, in go\n    raise OddFlux(3)\nOddFlux: odd'
    "\n": "python-exception:6: core.py, line 8: raise OddFlux(3), called from train.py, line 3: go(cfg))",
    INSIDE_PACKAGE: "python-exception:6: inside of quaint: perhaps its version does not fit",
    # A message goes on below its exception, a line of another program does not.
    f"{TRACEBACK}RuntimeError: /w/flux/kernel.cc(88)\nthe flux needs an even grid"
    "\n": "python-exception:4: /w/flux/kernel.cc(88) the flux needs an even grid",
    # The usual words of a message say more than a general class, and less than one with a meaning of its own.
    f"{TRACEBACK}RuntimeError: flux 7 must be even"
    "\n": "python-exception:4: does not take an input, an option or a value: flux 7 must be even",
    f"{TRACEBACK}IndexError: flux 7 must be even"
    "\n": "python-exception:4: an index outside of a list or array: flux 7 must be even",
    "  FluxError\n\n  the flux cannot be opened\n\n  at odd/flux.py:217 in run"
    "\n": "says-missing:1: FluxError the flux cannot be opened",
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f75 (most recent call first):\n"
    '  File "/x/oddlib/max.py", line 13 in flux\nSegmentation fault'
    "\n": "python-crashed-in:1: Python crashed (Segmentation fault) in flux (/x/oddlib/max.py, line 13)",
    f"{CPP}  what():  Bug at graph.cc:3\n the flux is odd\nAborted"
    "\n": "terminate-exception:2: odd::Flux: Bug at graph.cc:3 the flux is odd",
    f"{INFO}TypeError: flux() got an unexpected keyword argument 'odd'\n": "unexpected-keyword:2: ",
    # What no rule knows is quoted, with what its usual words and its status mean.
    "error: odd flux of x\n": "unexplained:1: says: error: odd flux of x",
    "ERROR  : the flux capacitor is not installed\n": "says-missing:1: the program says that something is missing",
    "fluxtool: error: CURAND_STATUS_PREEXISTING_FAILURE in step 3"
    "\n": "cuda-library-status:1: CURAND_STATUS_PREEXISTING_FAILURE means: an earlier kernel crashed",
    "RuntimeError: CUDA error: invalid argument\n": "cuda-error-named:1: means: an argument of the call is wrong",
    "Files to fetch: 4\n=== PROBLEM ===\nNot enough flux (10 % are kept)\nRequired: 5 GB"
    "\n": "says-no-resources:3: Not enough flux",
    # An error is judged with the reason that it announces on the next line.
    "Error at graph.cc:3 in flux:\nthe file does not exist"
    "\n": "says-missing:1: the program says that something is missing: at graph.cc:3 in flux:",
    # Usual words count where the log ends.
    "Error: the old model does not exist\n"
    + "step\n" * 100
    + "Error: the new model does not exist\n": "says-missing:102: ",
    "OSError: [Errno 98] Address already in use"
    "\n": 'port-in-use:1: another program listens on that port ("OSError: [Errno 98] Address already in use")',
    "AttributeError: module 'numpy' has no attribute 'warnings'"
    "\n": "numpy-attribute:1: the installed NumPy has no warnings: ",
    # A mangled name is shown as its author wrote it.
    "ImportError: m.so: undefined symbol: _Z33cublas_tensor_core_matmul_cuda_4dN2at6TensorES0_"
    "\n": "undefined-symbol:1: cublas_tensor_core_matmul_cuda_4d(at::Tensor, at::Tensor)",
    # Of two errors that a retry survived the first.
    "Host key verification failed.\ngit@forge.test: Permission denied (publickey).\n"
    "Failed to clone 'x'. Retry scheduled\nFailed to clone 'x' a second time, aborting\n": "ssh-host-key:1: ",
    "fatal: early EOF\nFailed to clone 'x'. Retry scheduled\nFailed to clone 'x' a second time, aborting"
    "\n": "git-tls-terminated:1: ",
    # Of two rules for a line the longer match.
    "/bin/sh: 1: /usr/local/cuda-11.1/lib64:/bin/nvcc: not found\n": "cuda-home-is-list:1: ",
    # Progress of others hides no failure in parallel builds, or if the end of the log is missing.
    f"{CUDNN}[ 85%] Built target c\n[7/9] Linking CXX d\n": "cudnn-header:1: ",
    f"{PARALLEL}make: *** [all] Error 2\n": "ld-setup:1: ",
    f"{PARALLEL}{CUDNN}make: *** [all] Error 2\n": "cudnn-header:5: ",
    "Err:1 http://archive.example/ubuntu focal InRelease\n  Temporary failure resolving 'archive.example'\n"
    "E: Unable to locate package git\n": "apt-unreachable:2: ",
    # One result or none does not show that the program went on.
    f"{MISSING}step 100 tokens/s 81211\n": "shared-library-missing:1: ",
    f"{MISSING}100.0% proc'd: 0 (0 Gflop/s)\n100.0% proc'd: 0 (0 Gflop/s)\n": "shared-library-missing:1: ",
    f"{MISSING}make: *** [all] Error 2\nreal time 3.2 s\nuser time 2.1 s\n": "shared-library-missing:1: ",
    f"{MISSING}finished with errors\nfailed: saved nothing\n": "shared-library-missing:1: ",
    "ImportError: libcudnn_ops.so.9: cannot open shared object file\nAborted (core dumped)\n\nreal\t0m6.853s"
    "\n": "libcudnn-missing:1: ",
    REFUSED: "connection-refused:1: ",
    "Please select the geographic area in which you live.\n  1. Africa  12. US\nGeographic area:\n": "apt-asks:1: ",
    # A reason or a hint below an error is part of the cause.
    "error: Failed to parse `odd.lock`\n  Caused by: entry `flux` has no source"
    "\n": "says-damaged:1: ; the next line: entry `flux` has no source",
    "LibMambaUnsatisfiableError: Encountered problems while solving:\n\n  - odd 1 needs flux"
    "\n": "conda-unsatisfiable:1: ; the next line: odd 1 needs flux",
    "error: Failed to fetch: `http://127.0.0.1:8080/simple/odd/`\n  Caused by: error sending request\n"
    "  Caused by: client error (SendRequest)\n  Caused by: Broken pipe (os error 32)"
    "\n": "uv-download-failed:1: Broken pipe (os error 32)",
    "Error: cannot open the flux store\n\nhint: it was written by version 9; this is version 7\nexit"
    "\n": "says-missing:1: ; its hint: it was written by version 9; this is version 7",
    # A long line and a long captured value keep their ends.
    "FATAL:   could not open image /odd.sif: "
    + "retrieving the path: " * 40
    + "lstat /odd: no such file\n": 'apptainer-image:1: retrieving the path: lstat /odd: no such file")',
    # What a tool warned of and then failed with is a cause, what it only warned of is none.
    f"{RETRYING}Could not fetch URL https://x/y: (Caused by {CERTIFICATE}) - skipping\n{NO_TORCH}": "tls-verify:2: ",
    f"{RETRYING}{NO_TORCH}": "pip-no-distribution:2: ",
    "setup.py:78: UserWarning: flux was requested, but nvcc was not found.  Are you sure your environment has nvcc "
    "available?\n  warnings.warn(\n"
    "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
    "\n": "cuda-home-unset:3: ",
    # Below a traceback of Bazel.
    "ERROR: An error occurred during the fetch of repository 'odd':\n   Traceback (most recent call last):\n"
    '\tFile "/w/maven.bzl", line 146, column 22, in _maven_impl\n\t\tout = ctx.execute(args)\n'
    "Error in execute: Argument 0 of execute is neither a path, label, nor string.\n"
    "ERROR: Analysis of target '//:odd' failed; build aborted\n": "bazel-repository-rule:5: ",
    # A general consequence does not overtake what may be retried.
    "fatal: unable to access 'https://git.example/odd/': The requested URL returned error: 504\n"
    "CMake Error at odd-gitclone.cmake:39 (message):\n  Failed to clone repository: 'https://git.example/odd'"
    "\n": "http-5xx:1: ",
    # The reason that NCCL gives stands above its general error.
    f"n:1:2 [0] misc/socket.cc:483 NCCL WARN {ABORTED}\n"
    f"{NCCL}": "nccl-peer-unreachable:1: Software caused connection abort",
    f"{NCCL}Last error:\n{ABORTED}\n": "nccl-peer-unreachable:4: Software caused connection abort",
    'Undefined symbols for architecture arm64:\n  "_flux", referenced from:\n      _main in a.o\n'
    "ld: symbol(s) not found for architecture arm64"
    "\n": "undefined-symbols-darwin:1: no library on the linker's command defines _flux for arm64",
    # Another program's error is none of a container tool.
    "[ERROR] flux is odd\n": "unexplained:1: ",
    "[INFO] Querying registry for permission grant\n[ERROR] flux is odd\n": "container-tool-says:2: ",
    "[2023-06-11T08:49:21.050Z] ResolvePackageNotFound:\n[2023-06-11T08:49:21.050Z]   - conda==23.3.1"
    "\n": "conda-package-missing:1: conda==23.3.1",
    # A name that ends like an error code is none.
    "error: cannot read TOKENFILE of the run\n": "command-cannot:1: ",
    "error: open flux: ENFILE\n": "open-files-system:1: ",
    "No devices were found\nNVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus."
    "\n": "gpu-fell-off-bus:2: ",
    # Packages that are set up after a failed one are no success.
    "chown: invalid user: 'odd:odd'\ndpkg: error processing package odd (--configure):\n"
    " installed odd package post-installation script subprocess returned error exit status 1\n"
    "Processing triggers for libc-bin (2.31) ...\nE: Sub-process /usr/bin/dpkg returned an error code (1)"
    "\n": "dpkg-script-command:1: ",
    # Numbers that spack puts before lines hide no context.
    '  >> 4    CMake Error at x.cmake:61 (set_target_properties):\n     5      The link interface of target "a" '
    "contains:\n     6    \n     7        CUDA::cupti\n     8    \n     9      but the target was not found."
    "\n": "cmake-target-missing:2: the CMake target CUDA::cupti, needed by a,",
    # Blanks at the end of a line.
    "[ImportError]     \nNo module named h5py  \n": "missing-python-package:2: ",
    "[ImportError]     \nImportError: No module named 'h5py'\t\n": "missing-python-package:2: ",
    # What is said with another first letter, level or kind of quotes.
    "error response from daemon: No such container: db\n": "docker-no-such-container:1: ",
    "Error response from daemon: no such container: db\n": "docker-no-such-container:1: ",
    'Cannot create directory "/opt/x": Permission denied\n': "permission-denied-path:1: ",
    # Of a job of GitHub Actions, the step that failed: what ran before it succeeded, what follows cleans up.
    f"{STEP}{CUDNN}{STEP}error: odd flux of x\n{STEP_FAILED}Post job cleanup.\n{MISSING}": "unexplained:4: ",
    # pip builds one wheel, and fails to build another.
    "  The detected CUDA version (12.2) mismatches the version that was used to compile\n  PyTorch (11.3).\n"
    "Successfully built odd\nFailed to build flux\n": "torch-cuda-mismatch:1: ",
    # An undefined reference without names of the newer ABI: the library is not linked.
    "a.o: undefined reference to `absl::Fill(std::__cxx11::basic_string<char>*)'\n"
    "a.o: undefined reference to `absl::Log(char const*, int)'\n": "undefined-reference:1: ",
    "  Cannot find source file:\n\n    a.cc\n\n  No SOURCES given to target: odd\n": "cmake-sources-missing:1: ",
    "Package curl is not available, but is referred to by another package.\n\n"
    "E: Version '7.6' for 'curl' was not found\n": "apt-version-missing:3: ",
}


@pytest.mark.parametrize("text", FIRST_CAUSES, ids=FIRST_CAUSES.get)
def test_the_first_cause(text: str):
    place, _, part = FIRST_CAUSES[text].partition(": ")
    cause = explained(text).causes[0]
    assert f"{cause.rule}:{cause.line}" == place and part in cause.cause


# A log, and the rules and lines of all its causes.
ALL_CAUSES = {
    # What was survived, a fallback or a warning ranks below the failure after it.
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'ReadTimeoutError': /simple/torch/\n"
    "Successfully installed torch-2.0.1\n"
    + "step\n" * 5
    + "RuntimeError: Bool type is not supported by dlpack\n": "dgl-bool-dlpack:8 pip-network:1",
    "ImportError: libnvinfer.so.8: cannot open shared object file\nfalling back to CUDA\n"
    + "step\n" * 20
    + "RuntimeError: No CUDA GPUs are available\n": "gpu-no-devices:23 shared-library-missing:1",
    "WARNING: cannot open shared library: libfoo.so: cannot open shared object file\nFailed to align the flux"
    "\n": "says-failed:2 shared-library-missing:1",
    # A line that a symptom knows is no cause by its words.
    "srun: error: node1: task 0: Exited with exit code 1\nerror: odd flux\n": "unexplained:2 slurm-step-exit:1",
    "Error: the model path does not exist: /m\nSegmentation fault (core dumped)\n": "segfault:2 says-missing:1",
    "ptxas application ptx input, line 9; error   : Arguments mismatch for instruction 'mov'\n"
    "ptxas fatal   : Ptx assembly aborted due to errors\n": "ptxas-error:1 ptxas-aborted:2",
    "error: the flux is odd\nreading on\nerror: the flux is strange\n": "unexplained:1 unexplained:3",
    f"E0911 06:19:37.20 3746 a.cpp:70] Failed to open the flux\n{TRACEBACK}OddFlux: no\n": (
        "says-failed:1 python-exception:5"
    ),
    # Of two tracebacks far apart the last, which ended the program.
    f"{TRACEBACK}EarlyFlux: odd\n" + "step\n" * 100 + f"{TRACEBACK}LateFlux: odd\n": "python-exception:108",
}


@pytest.mark.parametrize("text", ALL_CAUSES, ids=ALL_CAUSES.get)
def test_the_order_of_causes(text: str):
    assert [f"{cause.rule}:{cause.line}" for cause in explained(text).causes] == ALL_CAUSES[text].split()


# As FIRST_CAUSES, in every form of a log.
IN_EVERY_FORM = {
    logs.noise("compile") + "[ 83%] Building CUDA object a.cu.o\n[ 84%] Building CXX object b.cc.o\n"
    "/src/b.cc:9:10: fatal error: cudnn.h: No such file or directory\n"
    "    9 | #include <cudnn.h>\ncompilation terminated.\n[ 85%] Built target c\n"
    "make[2]: *** [CMakeFiles/b.dir/build.make:90: b.cc.o] Error 1\nmake: *** [Makefile:136: all] Error 2"
    "\n": "cudnn-header:403: /src/b.cc:9:10: fatal error: cudnn.h: No such file or directory",
    f"{TRACEBACK}flux.errors.OddFlux: three is odd\nlast words"
    "\n": "python-exception:4: flux.errors.OddFlux: three is odd (a.py, line 3: raise OddFlux(3))",
    "flux.cc:93: Check failed: e == cudaErrorCudartUnloading: CUDA: cudaErrorInvalidDevice"
    "\n": "cuda-check-text:1: cudaErrorInvalidDevice means: no GPU of that number is visible",
    f"{CPP}  what():  flux at graph.cc:3\nAborted (core dumped)"
    "\n": "terminate-exception:2: a C++ program ended by an exception odd::Flux: flux at graph.cc:3",
    'odd-1  | {"level":"error","error":"no flux: none in sight","message":"ended"}'
    "\n": "json-says:1: no flux: none in sight",
    # The neighbours of a line.
    "CMake Error at a.cmake:3 (message):\n  No download info given for 'odd' and its source\n  directory:\n\n"
    "   /w/odd.cpp\n\n  is not an existing non-empty directory.  Please specify one of:\n"
    "-- Configuring incomplete, errors occurred!\n": "cmake-external-empty:2: ",
    "ERROR: Cannot install odd==1 and even==2 because these package versions have conflicting dependencies.\n\n"
    "The conflict is caused by:\n    The user requested odd==1\n    even 2 depends on odd>=3"
    "\n": "pip-conflict:3: exclude one another: The user requested odd==1; even 2 depends on odd>=3",
}


@pytest.mark.parametrize("form", sorted(logs.FORMS))
@pytest.mark.parametrize("text", IN_EVERY_FORM, ids=lambda text: IN_EVERY_FORM[text].partition(":")[0])
def test_every_form_of_a_log_gives_the_same_cause_and_line(form: str, text: str):
    place, _, part = IN_EVERY_FORM[text].partition(": ")
    cause = explained(logs.FORMS[form](text)).causes[0]
    assert f"{cause.rule}:{cause.line}" == place and part in cause.cause


SUCCESSES = [
    "",
    "hello\n",
    "-- Looking for cuda.h - not found\n[100%] Built target x\n",
    "make: [Makefile:3: clean] Error 1 (ignored)\ndone.\n",
    "tests/test_errors.py::test_error PASSED\n===== 3 passed, 1 xfailed in 0.1s =====\n",
    "E   odd: error: flux\n== 3 passed, 1 skipped, 1 xfailed, 2 warnings in 2.31s ==\n",
    "fatal: not a git repository (or any parent): .git\n-- Build files have been written to: /src/b\n",
    "Traceback (most recent call last):\nKeyError: 1\ncached\nSuccessfully installed x-1\n",
    # What a tool goes on after.
    "FAIL : libnvinfer.so.8: cannot open shared object file\nFalling back to ['CPUExecutionProvider']\nRunning.\n",
    "libfoo.so.1: cannot open shared object file: No such file or directory\nEpoch 2/2 - 3s - loss: 0.11\n",
    "error: dial tcp 127.0.0.1:1: connect: connection refused\n--- PASS: TestDialError (0.00s)\n",
    "terminate called after throwing an instance of 'E'\n  what():  meant\n[       OK ] Error.Throws (3 ms)\n",
    "rm: cannot remove 'lib/a.o': No such file or directory\nmake: [Makefile:12: clean] Error 1 (ignored)\n",
    "the flux cannot be aligned\ndone in 3 s\n",
    "the flux cannot be aligned\nEpoch 1/2 accuracy: 0.9\n",
    "the flux cannot be aligned\nfalling back to the CPU\n",
    "the flux cannot be aligned\nupload succeeded\n",
    f"{REFUSED}odd | Oddserver is ready at: http://127.0.0.1:7080\n",
    f'{PMIX}You can suppress this warning by adding "silence=1"\nHello, world, I am 0 of 2\n',
    f"{INFO}TypeError: flux() got an unexpected keyword argument 'odd'\nsaved the model\n",
    NVML,
    # Python ignores an exception.
    'Exception ignored in: <function A.__del__>\nTraceback (most recent call last):\n  File "a.py", line 1\nOdd: x\n',
    f"{IGNORED}{TRACEBACK}AssertionError: only a child may\n",
    f"{IGNORED}TypeError: 'NoneType' object is not callable\n",
    # Two results.
    f"{MISSING}step 100 tokens/s 81211\nstep 200 tokens/s 81440\n",
    f"{MISSING}ITER 1 time 0.212 s\nRESULT throughput 4711.2 samples/s\n",
    f"{MISSING}Epoch 1 | Loss 1.9461 |\nEpoch 2 | Loss 1.9412 |\n",
    f"{MISSING}shards: 100%|####| 4/4 [00:08<00:00]\nsaved /w/model.pt\n",
    "fatal: not a git repository: .git\n|flux|0.3256|±  |0.0065|\n|perplexity|40.05|±  |1.4881|\n",
    f"ERROR:root:attempt 0\n{TRACEBACK}OddFlux: x\nstep 100 tokens/s 81211\nstep 200 tokens/s 81440\n",
    "ls: cannot access '/opt/odd': No such file or directory\nconfig.status: creating Makefile\n",
    "w.c: In function 'failed':\nw.c:3:28: warning: unused variable 'x' [-Wunused-variable]\n0 errors, 0 failed\n",
    "best val error 0.00012, 0 batches failed\n",
    # What engines print while they go on.
    f"{DISCOVERY}INFO[0000] Selecting /dev/nvidia0 as /dev/nvidia0\n",
    f"{DISCOVERY}77ad1fe2b1c2\n",
    f"{DISCOVERY}be9c31226f2a7833c863151c9e20c68e26f39158cb13b59f6fc6ea6242762884\n",
    # What reads like an error.
    "W1128 17:35:08.65 1738 nvc.c:273] failed to set the flux\n",
    "flux 7.2 ms\ninvalid configurations skipped: 3 (shared memory)\nbest: flux\n",
    f"{INFO}errors are logged to TypeError: odd\n",
    "Cannot find the generic interface, using the old one\n",
    "Failed configs: 0 of 12\n",
    "collect2: error: ld returned 1 exit status\n[INFO] Process 31337 exits successfully.\n",
    "  Unsupported      :  310 (12.86%)\n  Expectedly Failed:    2 (0.08%)\n",
    "+ timeout -s SIGSEGV 4m ./hello\nHello, world\n",
    "[conmon:d]: failed to write to /proc/self/oom_score_adj: Permission denied\n",
    "DEBU[0000] Configured OCI runtime odd failed: no valid executable found: invalid argument\n",
    *(form("connect: connection refused\n# bandwidth: 62.06\n") for form in logs.FORMS.values()),
]


@pytest.mark.parametrize("text", SUCCESSES, ids=range(len(SUCCESSES)))
def test_a_success_is_not_accused(text: str):
    assert explained(text) == Explanation(True, [])


PROMPTS = [
    "[5/11] base: RUN ",
    "$ ",
    "+ ",
    "me@node:~/src$ ",
    "[root@node build]# ",
    "(venv) me@node:/w$ ",
    "Step 3/9 : RUN ",
    "#7 [2/4] RUN ",
]


@pytest.mark.parametrize("before", PROMPTS)
def test_a_command_is_no_message(before: str):
    command = "grep 'Permission denied' log; test -f /usr/include/cudnn.h || echo 'error: odd flux'"
    assert explained(f"{before}{command}\n").success


FAILURES = [
    f"{NVML}make: *** [all] Error 2\n",
    PMIX,
    "test acc 0.81\nTypeError: 'NoneType' object is not callable\n",
    f"test acc 0.81\n{TRACEBACK}AssertionError: only a child may\n",
    "step 1\n2024-01-01 10:00:00,123 - INFO - TypeError: flux is odd\n",
    # What engines print while they give up.
    DISCOVERY,
    f"{DISCOVERY}INFO[0011] Deleting cluster 'gpu'\n",
    f"{DISCOVERY}INFO[0002] Rolled back\n",
    f"{DISCOVERY}77ad1fe2b1c2 gone\n",
    "linux-64  [====] (00m:01s) Done\nEncountered problems while solving:\n  - odd-1 conflicting with odd-2\n",
    # Names and half sentences are no signs of success.
    "Error: odd thing cannot be read\nsee https://git.example/k8s-device-plugin#quick-start\n",
    "Error: odd thing cannot be read\n"
    "Local abort before MPI_INIT completed successfully, but not all processes ended\n",
    # Neither are tests that passed beside others.
    "ERROR collecting test_odd.py\nit is odd\n== 2 passed, 1 error in 0.17 seconds ==\n",
    "ERROR collecting test_odd.py\nit is odd\n1 failed, 2 passed in 0.2s\n",
]


@pytest.mark.parametrize("text", FAILURES, ids=range(len(FAILURES)))
def test_a_failure_is_none_of_a_program_that_went_on(text: str):
    assert explained(text).success is not True


@pytest.mark.parametrize(
    "before",
    [
        "(EngineCore_DP0 pid=17374) ERROR 09-28 15:47:24 [core.py:718] ", "[rank2]: ", "[1,0]<stderr>: ",
        "runtime-1        | ", "  | (EngineCore_DP0 pid=6804) ", "      ", "  >> 462    ",
        "slurmstepd: error: pyxis:     ", "2018/12/20 08:48:07 ", 'time="2021-12-08T22:22:17Z" level=error msg="',
        "E   ", "E       ", "[3]<stderr>:", "Fri Sep 25 16:52:35 2020[3]<stderr>:",
        "ERRO[0000] ", "Jan 31 15:18:45 n1 dockerd[25565]: ", "(raylet) [2021-11-17 10:43:46,668 E 99870 16327337] ",
        "[E 2022-02-22 23:32:03.896 JupyterHub user:800] ", "  Warning  Failed  10s (x3 over 1m)  kubelet  ",
        "2023-10-19T11:11:54.957+08:00 stderr F ",
    ],
)  # fmt: skip
def test_what_loggers_and_launchers_put_before_a_line_hides_no_error(before: str):
    for line in ("QuaintError: the flux is odd", "MemoryError", MKDIR):
        cause = explained(f"step 1\n{before}{line}\nstep 2\n").causes[0]
        assert (cause.line, cause.text.partition('"')[0]) == (2, line)


@pytest.mark.parametrize(
    "prefix", ["node7: ", "[rank: 0] ", "[stderr] ", "db  | ", "build/run\t[out]: ", "[10:04:05] "]
)
def test_the_prefix_of_an_unknown_tool_hides_no_cause(prefix: str):
    plain = explained(CHANNELS).causes[0]
    behind = explained("".join(f"{prefix}{line}\n" for line in CHANNELS.splitlines())).causes[0]
    assert (behind.rule, behind.line) == (plain.rule, plain.line) and "do not have odd-package=1.2" in behind.cause


@pytest.mark.parametrize("mark", ["├─▶ ", "  cause: ", "#9 0.4   ├─▶ "])
def test_the_reason_below_an_error_is_given_before_its_hint(mark: str):
    text = f"error: Failed to fetch: `http://127.0.0.1:8080/odd/`\n{mark}the odd flux broke\nhint: `odd` was included\n"
    assert explained(text).causes[0].cause.endswith("the next line: the odd flux broke")


@pytest.mark.parametrize("opening", ["'", "`", '"', "\N{LEFT SINGLE QUOTATION MARK}"])
def test_a_message_is_known_in_any_quotes(opening: str):
    closing = {"`": "'", "\N{LEFT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}"}.get(opening, opening)
    for name, rule in (("h5py", "missing-python-package"), ("sklearn", "opencv-numpy-cv2")):
        for both in (closing, opening):
            text = f"ModuleNotFoundError: No module named {opening}{name}{both}\n"
            assert explained(text).causes[0].rule == rule, text


def test_a_full_disk_of_the_engine_is_named_with_what_frees_it():
    for line in (
        "failed to register layer: write /usr/lib/libcudnn.so.8: no space left on device",
        "ERROR: failed to solve: failed to copy files: copy file range failed: no space left on device",
        "Error response from daemon: write /var/lib/docker/tmp/GetImageBlob12: no space left on device",
        'Error: writing blob: storing blob to file "/var/tmp/storage1/2": write: no space left on device',
        "ERROR: failed to solve: ResourceExhausted: mkdir /var/lib/docker/overlay2/ab: no space left on device",
    ):
        cause = explained(f"{line}\n").causes[0]
        assert cause.rule == "engine-disk-full", line
        assert "docker system df" in cause.remedy and "reprokit clean" in cause.remedy


def test_a_refusal_that_wget_prints_is_a_failure():
    for code in ("403 Forbidden", "410 Gone", "430 Odd", "503 Service Unavailable"):
        assert explained(f"HTTP request sent, awaiting response... {code}\n").causes[0].cause.endswith(code)


def test_an_exception_is_quoted_with_its_place_and_what_followed_it():
    chained = explained(next(iter(FIRST_CAUSES))).causes[0]
    assert "(a.py, line 1: d[7]) and then OddFlux: cannot go on" in chained.cause and chained.confidence < 0.5
    assert "leaving" not in explained(f"{TRACEBACK}RuntimeError: odd flux 7\nleaving the folder\n").causes[0].cause
    assert explained(INSIDE_PACKAGE).causes[0].remedy.startswith("pip show quaint")
    outside = explained(INSIDE_PACKAGE.replace("/opt/lib/python3.9/site-packages/quaint/", "/w/")).causes[0]
    assert "inside of" not in outside.cause
    assert explained(f"{PARALLEL}make: *** [all] Error 2\n").causes[0].confidence > 0.5


def test_how_the_command_ended_decides_where_it_is_known():
    assert explained("error: x\n", failed=False).success
    (cause,) = explained("some words\nlast words\n\n", failed=True).causes
    assert (cause.rule, cause.line, cause.text) == ("unexplained", 2, "last words")
    assert not explained("", failed=True).success


def test_captured_values_stand_in_cause_remedy_and_change():
    error = "x.h:138:2: error: #error -- unsupported GNU version!"
    (cause, *_) = explained(f"{error} gcc versions later than 11 are not supported!").causes
    assert "gcc versions later than 11" in cause.cause and "g++-11" in cause.remedy
    assert cause.as_json()["recipe_change"] == [{"op": "replace", "path": "/variants/*/pins/gcc", "value": "11"}]
    assert explained(error).causes[0].recipe_change == []


@pytest.mark.parametrize(("product", "oldest"), [("NVIDIA GeForce RTX 4080 sm_89", "11.8"), ("X sm_86", "11.1")])
def test_the_oldest_cuda_for_a_gpu_comes_from_an_earlier_warning(product: str, oldest: str):
    name, _, arch = product.rpartition(" ")
    warning = (
        f"UserWarning: {name} with CUDA capability {arch} is not compatible with the current PyTorch installation.\n"
    )
    cause = explained(warning + "step\n" * 70 + NO_KERNEL).causes[0]
    assert (cause.line, cause.recipe_change[0]["value"]) == (72, oldest)


def test_json_has_the_promised_keys():
    found = explained("E: Unable to locate package llvm-10-dev\n").as_json()
    assert (
        {"success", "causes", "family", "advice", "thread", "query"} < set(found)
        and found["success"] is False
        and found["causes"][0]["line"] == 1
    )
    assert set(found["causes"][0]) == set(Cause._fields) - {"context"}


def test_a_long_captured_value_keeps_its_end():
    cause = explained("Error: the flux failed: " + "mounting: " * 60 + "mkdirat /odd: file exists\n").causes[0].cause
    assert cause.endswith("mkdirat /odd: file exists") and " … " in cause and len(cause) < 400


def test_the_meaning_of_a_status_is_given_once_and_only_if_the_rule_has_none():
    assert matcher().status("CUBLAS_STATUS_NOT_SUPPORTED_FLUX") is None  # a status is a whole word
    assert matcher().status("CUBLAS_STATUS_NOT_SUPPORTED: flux")[0] == "CUBLAS_STATUS_NOT_SUPPORTED"
    entries = yaml.safe_load((FOLDER / "statuses.yaml").read_text())
    names = [name for entry in entries for name in entry["names"]]
    assert len({*names}) == len(names) and all(matcher().status(name)[0] == name for name in names)
    assert len({entry["means"] for entry in entries}) == len(entries)
    cause = explained("RuntimeError: CUDA runtime error: CUBLAS_STATUS_INVALID_VALUE flux.h:3\n").causes[0].cause
    assert cause.count("does not fit") == cause.count("another cuBLAS") == 1
    assert "means:" not in explained("RuntimeError: CUDA error: invalid device ordinal\n").causes[0].cause
    assert "memory is full" not in explained("RuntimeError: CUDA error: invalid argument\n").causes[0].cause
    pep = "error: externally-managed-environment\nhint: See PEP 668 for the detailed specification.\n"
    assert "PEP 668" not in explained(pep).causes[0].cause  # a rule that is exact needs no hint
