# Copyright the umbench authors. SPDX-License-Identifier: Apache-2.0
"""A Spack recipe. Until it is in Spack's own repository:

    spack repo add examples/spack
    spack env create umbench && spack env activate umbench
    spack add umbench@main                                                   # or with +cuda cuda_arch=90
    spack develop --path "$PWD" umbench@main && spack install
"""

from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass  # before Spack 1.0 spack.package has them


class Umbench(CMakePackage, CudaPackage):
    """Deep learning with less device memory than it needs, on a GPU or on a simulated one, and what that costs."""

    homepage = "https://example.org/umbench"  # where you have it from
    git = "https://example.org/umbench.git"

    license("Apache-2.0")

    version("main", branch="main")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("cli11")
    depends_on("nlohmann-json")
    depends_on("fmt")
    depends_on("python@3.9:", type="run")
    depends_on("py-matplotlib", type="run")
    depends_on("py-scipy", type="run")
    depends_on("googletest", type="test")

    with when("+cuda"):
        depends_on("cuda@12.4:")
        depends_on("cudnn@9:")
        depends_on("benchmark")
        conflicts("cuda_arch=none", msg="say which GPU: cuda_arch=90")
        resource(
            name="cudnn-frontend",
            git="https://github.com/NVIDIA/cudnn-frontend.git",
            tag="v1.14.0",
            placement="cudnn-frontend",
        )

    generator("ninja")

    def cmake_args(self):
        args = [self.define_from_variant("UM_CUDA", "cuda"), self.define("UM_TESTS", self.run_tests)]
        if self.spec.satisfies("+cuda"):
            args += [
                self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value),
                self.define("CUDNN_ROOT", self.spec["cudnn"].prefix),
                self.define("CUDNN_FRONTEND_INCLUDE", join_path(self.stage.source_path, "cudnn-frontend", "include")),
            ]
        return args
