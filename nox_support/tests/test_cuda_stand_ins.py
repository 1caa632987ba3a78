"""Stand-ins let a library that was linked against CUDA load and find no device."""

import subprocess
import sys

import pytest

from nox_support.cuda_stand_ins import write_cuda_stand_ins

USER = """
int cudaGetDeviceCount(int *count);
int cudaSetDevice(int device);
int cublasCreate_v2(void *handle);
int code(void) { int count = 5; return cudaGetDeviceCount(&count) * 10 + count; }
int set(void) { return cudaSetDevice(0); }
int other(void) { return cublasCreate_v2(0); }
"""
LOAD = "import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); print(l.code(), l.set(), l.other())"


def gcc(*arguments):
    subprocess.run(["gcc", "-shared", "-fPIC", *map(str, arguments)], check=True)


@pytest.fixture
def site_packages(tmp_path):
    """A folder like that of a CUDA torch without its dependencies: one library that needs two absent ones."""
    cuda, torch = tmp_path / "cuda", tmp_path / "site-packages" / "torch" / "lib"
    cuda.mkdir()
    torch.mkdir(parents=True)
    (cuda / "runtime.c").write_text(
        "int cudaGetDeviceCount(int *c) { return 0; } int cudaSetDevice(int d) { return 0; }"
    )
    (cuda / "runtime.map").write_text("libcudart.so.11.0 { global: cudaGetDeviceCount; cudaSetDevice; };")
    (cuda / "blas.c").write_text("int cublasCreate_v2(void *handle) { return 0; }")
    (cuda / "user.c").write_text(USER)
    runtime, blas = cuda / "libcudart.so.11.0", cuda / "libcublas.so.11"
    gcc(
        "-o",
        runtime,
        cuda / "runtime.c",
        f"-Wl,-soname,{runtime.name},--version-script={cuda / 'runtime.map'}",
    )
    gcc("-o", blas, cuda / "blas.c", f"-Wl,-soname,{blas.name}")
    gcc("-o", torch / "libtorch_cuda.so", cuda / "user.c", runtime, blas, "-Wl,-rpath,$ORIGIN")
    return tmp_path / "site-packages"


def load(site_packages):
    library = site_packages / "torch" / "lib" / "libtorch_cuda.so"
    return subprocess.run([sys.executable, "-c", LOAD, str(library)], capture_output=True, text=True)


def test_a_library_that_needs_cuda_loads_and_finds_no_device(site_packages):
    assert "libcudart.so.11.0: cannot open shared object file" in load(site_packages).stderr
    written = write_cuda_stand_ins(site_packages)
    assert [file.name for file in written] == ["libcublas.so.11", "libcudart.so.11.0"]
    process = load(site_packages)
    assert process.stdout.split() == ["1000", "100", "0"], process.stderr


def test_writing_again_changes_nothing(site_packages):
    write_cuda_stand_ins(site_packages)
    assert write_cuda_stand_ins(site_packages) == []


def test_without_torch_the_error_says_what_to_install(tmp_path):
    with pytest.raises(FileNotFoundError, match="install it before asking for CUDA stand-ins"):
        write_cuda_stand_ins(tmp_path)
