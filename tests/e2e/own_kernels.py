#!/usr/bin/python3
"""Own kernels in `bench matmul` and `bench reduction`. A build with NVRTC also compiles them
without a GPU."""

import pathlib

import h5py

from harness import each, expect_words, main, new_folder, run, skip_part, why_no_gpu

OWN_KERNELS = pathlib.Path(__file__).resolve().parents[2] / "inputs/kernels"
PRODUCT = "const float* a, const float* b, float* c, int n"


def test_own_kernels_without_a_gpu():
    """The file is read in every build. With NVRTC it is compiled, and errors have its lines."""
    folder = new_folder()

    def of_file(text, name="mine.cu", choice=""):
        path = folder / name
        path.write_text(text)
        return f"{path}{choice}"

    def check(option, code, words, needs_compiler=False, ladder="matmul"):
        finished = run("bench", ladder, f"--{ladder}.kernel", option, *own_options[ladder],
                       "--device.backend", "host")
        if needs_compiler and "not compiled" in finished.out:
            code, words = 0, ["NVRTC"]
        finished.expect(code)
        expect_words(" ".join(finished.out.split()), words)
    own_options = {"matmul": [], "reduction": ["--reduction.count", "2^20", "--quick"]}
    two = (f"// __global__ void no();\n__global__ void one({PRODUCT}) {{}}\n"
           f"extern \"C\" __global__ void __launch_bounds__(2 * (64)) two({PRODUCT});\n")
    each([(folder / "none.cu", 2, ["none.cu", "cannot be read"]), (folder, 2, ["cannot be read"]),
          (of_file("int f();  // __global__ void f()\n", "host.cu"), 2,
           ["host.cu", "__global__", "bench help matmul"]),
          (of_file(two, "two.cu"), 2, ["one, two", "two.cu:one"]),
          (of_file(two, "two.cu", ":three"), 2, ["'three'", "one, two"]),
          (OWN_KERNELS / "matmul.cu", 0, ["matmul.cu:product"]),
          (OWN_KERNELS / "reduction.cu", 0, ["reduction.cu:sum"], False, "reduction"),
          (of_file(f"\n__global__ void f({PRODUCT}) {{ c[0] = d; }}\n", "bad.cu"), 2,
           ["bad.cu(2): error:", '"d"'], True),
          (of_file("__global__ void f(float* c) {}\n", "args.cu"), 2,
           ["args.cu:f", "float alpha"], True),
          (of_file(f"constexpr int block_x = 33, block_y = 32;\n__global__ void f({PRODUCT}) {{}}",
                   "large.cu"), 2, ["1056 threads"], True),
          (of_file(f"namespace a {{ __global__ void f({PRODUCT}) {{}} }}", "inner.cu"), 2,
           ["inner.cu", "top level"], True),
          (of_file(f"#include <cooperative_groups.h>\n__global__ void f({PRODUCT}) {{\n"
                   "  int block_x = 3;\n  c[0] = block_x;\n}\n", "local.cu"), 0,
           ["local.cu:f"], True)], check)
    run("bench", "stride", "--matmul.kernel", "x.cu").expect(2)


def test_own_kernels():
    """The own kernel is the last rung. One that is wrong, or that leaves its arrays, costs no other
    rung its row."""
    why = why_no_gpu()
    if why:
        skip_part(why)
        return
    folder = new_folder()

    def measure(ladder, option):
        path = folder / f"{ladder}-{pathlib.Path(option).stem}.h5"
        finished = run("bench", ladder, f"--{ladder}.kernel", option, "--quick", "-o", path,
                       *(["--matmul.n", 1024] if ladder == "matmul" else []))
        with h5py.File(path) as file:
            row, = file["bench/experiments"][...]
            if row["state"] == b"not available":
                return finished, None
            return finished, [each["rung"].decode() for each in file[f"bench/{ladder}/rows"][...]]

    for ladder, rung, last in (("matmul", "matmul.cu:product", 2),
                               ("reduction", "reduction.cu:sum", 1)):
        finished, rungs = measure(ladder, OWN_KERNELS / f"{ladder}.cu")
        if rungs is None:
            skip_part(finished.out)
            return
        finished.expect(0)
        assert rungs[-last:] == [rung] * last and rungs.count(rung) == last, rungs
    element = "(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x"
    for name, body, code, words in (
            ("all", f"c[{element}] = 1e9f;", 3,
             ["all.cu:f", "1048576 of 1048576 elements are wrong", "row 0 and column 0"]),
            ("far", "*reinterpret_cast<float*>(16) = 1;", 1,
             ["far.cu:f", "destroyed the CUDA context"])):
        path = folder / f"{name}.cu"
        path.write_text(f"__global__ void f({PRODUCT}) {{ {body} }}\n")
        finished, rungs = measure("matmul", path)
        finished.expect(code)
        expect_words(" ".join(finished.out.split()), words)
        assert "cuBLASLt fp32" in rungs and f"{name}.cu:f" not in rungs, rungs


main(always=True)
