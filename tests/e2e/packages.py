#!/usr/bin/python3
"""Installation and packages: an installed program runs from where it is moved, the .deb has its
files and runs where it is unpacked, and the recipes require the versions that CMake requires."""

import ast
import os
import pathlib
import re
import shutil
import subprocess

from harness import PROGRAM, environment, main, new_folder, skip_part

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(PROGRAM).parent


def succeed(*command, env=None, cwd=None):
    done = subprocess.run(command, env=environment(env), cwd=cwd, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_program(prefix):
    """The program, its scripts and its inputs work below `prefix`."""
    program, shared = prefix / "bin/shardstream", prefix / "share/shardstream"
    assert succeed(program, "--version") == succeed(PROGRAM, "--version")
    folder = new_folder()
    succeed(program, "run", "reduce", "--input.data", "ramp", "--input.count", "10", "-o", "r.h5",
            cwd=folder)
    listed = succeed(program, "scale", shared / "inputs/strong-gemm.ini", "--list", "-o", "study",
                     "--scale.oversubscribe", "--device.backend", "host", cwd=folder)
    assert "gemm" in listed, listed
    assert "shapes" in succeed(shared / "jobs/product-shapes", "--help")
    assert "src/result/RESULT_FILE.md" in (shared / "README.md").read_text()
    assert (shared / "src/result/RESULT_FILE.md").is_file()
    assert not (shared / "jobs/quickstart").exists()
    for page in ("README.md", "jobs/README.md"):
        assert "quickstart" not in (shared / page).read_text(), page
    assert "## A first run" in (shared / "README.md").read_text()
    for document in ("man/man1/shardstream.1", "bash-completion/completions/shardstream",
                     "zsh/site-functions/_shardstream"):
        assert "histogram" in (prefix / "share" / document).read_text(), document


def test_an_installed_program_can_be_moved():
    folder = new_folder()
    succeed("cmake", "--install", BUILD, "--prefix", folder / "first")
    (folder / "first").rename(folder / "moved")
    check_program(folder / "moved")
    assert "[$ORIGIN/../lib" in succeed("readelf", "-d", folder / "moved/bin/shardstream")


def test_a_debian_package():
    if shutil.which("dpkg-shlibdeps") is None:
        skip_part("the .deb: dpkg-shlibdeps is missing")
        return
    folder = new_folder()
    succeed("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder)
    (package,) = folder.glob("shardstream_*.deb")
    fields = dict(re.findall(r"^ ?([A-Z][\w-]+): (.*)$", succeed("dpkg-deb", "-f", package),
                             flags=re.MULTILINE))
    assert fields["Package"] == "shardstream" and "gnuplot" in fields["Recommends"], fields
    for library in ("openmpi", "libhdf5-openmpi", "libboost-program-options", "libc6"):
        assert library in fields["Depends"], fields
    succeed("dpkg-deb", "-x", package, folder / "root")
    check_program(folder / "root/usr")


def cmake_versions():
    """The minimum versions of libraries by the name that Spack has for them, in lower case."""
    texts = [(TOP / "cmake/dependencies.cmake").read_text(), (TOP / "CMakeLists.txt").read_text()]
    found = re.findall(r"(?:find_package|cmake_minimum_required)\((\w+) (?:VERSION )?([\d.]+)",
                       "\n".join(texts))
    spack = {"CUDAToolkit": "cuda", "nlohmann_json": "nlohmann-json", "VERSION": "cmake"}
    return {spack.get(name, name.lower()): version for name, version in found}


def test_the_spack_recipe_requires_the_versions_of_cmake():
    tree = ast.parse((TOP / "cmake/packages/spack/package.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    needs = dict(re.match(r"([\w-]+)(?:@([\d.]+):)?", call.args[0].value).groups()
                 for call in calls if getattr(call.func, "id", "") == "depends_on")
    required = cmake_versions()
    assert set(required) <= set(needs) and {"mpi", "fmt"} <= set(needs), (required, needs)
    assert {name: needs[name] for name in required} == required
    options = {call.args[0].value for call in calls
               if getattr(call.func, "attr", "").startswith("define")}
    known = "\n".join(path.read_text() for path in (TOP / "cmake").glob("*.cmake"))
    for option in options:
        assert re.sub(r"^CMAKE_DISABLE_FIND_PACKAGE_", "find_package(", option) in known, option


def test_the_apptainer_definition_has_its_parts():
    text = (TOP / "cmake/packages/apptainer/shardstream.def").read_text()
    headers = dict(re.findall(r"^(Stage|Bootstrap): (\w+)$", text, flags=re.MULTILINE))
    assert headers["Bootstrap"] == "docker", headers
    stages = re.findall(r"^Stage: (\w+)$", text, flags=re.MULTILINE)
    sections = re.findall(r"^%(\w+)(?: from (\w+))?$", text, flags=re.MULTILINE)
    assert len(stages) == 2 and ("files", stages[0]) in sections, sections
    known = {"arguments", "files", "post", "environment", "runscript", "test", "labels"}
    assert {name for name, _ in sections} == known, sections
    given = set(re.findall(r"^    (\w+)=", text, flags=re.MULTILINE))
    assert set(re.findall(r"\{\{ (\w+) \}\}", text)) <= given, given
    for script in re.findall(r"%post\n((?:    .*\n|\n)+)", text):
        succeed("bash", "-n", "-c", script.replace("{{ ", "").replace(" }}", ""))


def visible(gpus, devices):
    """jobs/common.sh's answers on a machine with these compute capabilities."""
    folder = new_folder()
    fake = folder / "nvidia-smi"
    fake.write_text("#!/bin/sh\nif [ \"$1\" = -L ]; then\n"
                    + "".join(f"  echo 'GPU {i}: NVIDIA'\n" for i in range(len(gpus)))
                    + "else\n  printf '%s\\n' " + " ".join(gpus) + "\nfi\n")
    fake.chmod(0o755)
    return succeed("bash", "-c", '. "$0"; visible_gpus; gpu_architectures',
                   TOP / "jobs/common.sh",
                   env={"PATH": f"{folder}:{os.environ['PATH']}",
                        "CUDA_VISIBLE_DEVICES": devices}).split("\n")[:2]


def test_scripts_count_gpus_like_cuda_and_build_ptx_for_the_newest():
    gpus = ["8.0", "12.0", "9.0", "8.0"]
    for devices, count in ((None, "4"), ("", "0"), ("-1", "0"), ("0,2", "2"), ("1,-1,2", "1"),
                           ("GPU-5ea,MIG-1", "2"), ("NoDevFiles", "0"), ("0,1,2,3,4", "4")):
        assert visible(gpus, devices) == [count, "80-real;90-real;120"], (devices, count)


main()
