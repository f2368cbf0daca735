"""A recipe for Spack 1.0 or newer; cmake/README.md says how to use it."""

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Shardstream(CMakePackage, CudaPackage):
    """Statistics, matrix products and covariance matrices of HDF5 data sets that do not fit into
    the memory of a GPU, over many GPUs, with scaling studies."""

    license("BSD-3-Clause")

    version("main")

    variant("nccl", default=True, when="+cuda", description="Combine results of GPUs with NCCL")
    variant("figures", default=True, description="Draw the figures of reports with gnuplot")

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10:+mpi")
    depends_on("boost@1.74:+program_options+math")
    depends_on("fmt")
    depends_on("nlohmann-json@3.10:")
    depends_on("libdeflate@1.8:")
    depends_on("hwloc@2.1:")
    depends_on("openblas@0.3: threads=pthreads")
    depends_on("cuda@12.4:", when="+cuda")
    depends_on("nccl@2.18:", when="+nccl")
    depends_on("gnuplot", type="run", when="+figures")

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs, for example cuda_arch=90")

    def cmake_args(self):
        arguments = [self.define_from_variant("SHARDSTREAM_CUDA", "cuda"),
                     self.define("SHARDSTREAM_TESTS", False)]
        if self.spec.satisfies("+cuda"):
            # The newest one includes PTX, from which drivers compile code for later GPUs.
            *older, newest = sorted(self.spec.variants["cuda_arch"].value,
                                     key=lambda name: int(name.rstrip("abcdefghijklmnopqrstuvwxyz")))
            architectures = [*(f"{each}-real" for each in older), newest]
            arguments += [self.define("CMAKE_CUDA_ARCHITECTURES", architectures),
                          self.define("CMAKE_DISABLE_FIND_PACKAGE_NCCL",
                                      self.spec.satisfies("~nccl"))]
        return arguments
