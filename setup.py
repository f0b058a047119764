"""Only what pyproject.toml cannot say: the Cython modules, and that cli.py is `league.cli`."""

import os
import sys
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext as _build_ext
from setuptools.command.build_py import build_py as _build_py
from setuptools.errors import CompileError, LinkError

PARTS = ("ring_attention", "segment_attention", "lstm_gates", "lstm_segment", "tile_products", "wide_products")
SHARED = ("vector_math.h", "tensors.pxi", "lstm_gates.h", "wide_products.h")
COMPILED_PARTS = [
    Extension(
        f"league.policies.kernels._{name}",
        [f"policies/kernels/_{name}.pyx"],
        include_dirs=["policies/kernels"],
        depends=[f"policies/kernels/{name}.h", *(f"policies/kernels/{shared}" for shared in SHARED)],
    )
    for name in PARTS
]
CHECKS = os.environ.get("LEAGUE_CYTHON_CHECKS", "0") == "1"


class build_py(_build_py):
    """Puts cli.py of the root into the package; a checkout finds it where it is (`league/__init__.py`)."""

    def run(self):
        super().run()
        if not self.editable_mode:
            self.copy_file("cli.py", str(Path(self.build_lib, "league", "cli.py")))


class build_ext(_build_ext):
    """Sets the compiler's flags; uses OpenMP where the compiler has it (else prange is serial).

    Without a compiler the build ends, and says what to install.
    """

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or True  # as many compilers as cores

    def build_extensions(self):
        if not self._compiles("#include <Python.h>\nint main(void){return 0;}\n", []):
            raise CompileError(
                "league needs a C compiler and Python.h: `apt-get install gcc python3-dev` on Debian and Ubuntu,"
                " `dnf install gcc python3-devel` on Fedora, `xcode-select --install` on macOS; then install it again"
            )
        msvc = self.compiler.compiler_type == "msvc"
        openmp = ["/openmp"] if msvc else ["-fopenmp"]
        has_openmp = os.environ.get("LEAGUE_OPENMP", "1") != "0" and self._has_openmp(openmp)
        for ext in self.extensions:
            is_game = ext.name.startswith("league.envs.")
            if not msvc:
                # No fused multiply-add in games: plain Python must give the same bits (tests/oracles).
                ext.extra_compile_args += ["-O3", "-g0", "-ffp-contract=" + ("off" if is_game else "fast")]
                ext.extra_compile_args += [] if is_game else ["-Wno-psabi"]  # vectors are passed within one file only
            if has_openmp:
                ext.extra_compile_args += openmp
                ext.extra_link_args += [] if msvc else openmp
        super().build_extensions()

    def _has_openmp(self, flags):
        found = self._compiles("#include <omp.h>\nint main(void){return omp_get_max_threads()<1;}\n", flags)
        if not found:
            print("no OpenMP: compiled parts will run on one core", file=sys.stderr)
        return found

    def _compiles(self, text, flags):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "t.c")
            source.write_text(text)
            try:
                objects = self.compiler.compile(
                    [str(source)], output_dir=folder, include_dirs=self.include_dirs, extra_postargs=flags
                )
                if flags:
                    self.compiler.link_executable(objects, "t", output_dir=folder, extra_postargs=flags)
            except (CompileError, LinkError):
                return False
        return True


setup(
    cmdclass={"build_ext": build_ext, "build_py": build_py},
    # 0: the modules lie compiled in their places, and pip only adds what an extra needs (Makefile).
    ext_modules=[]
    if os.environ.get("LEAGUE_EXTENSIONS") == "0"
    else cythonize(
        [
            Extension("league.envs.brawl.brawl", ["envs/brawl/brawl.pyx"]),
            Extension("league.envs.cards.cards", ["envs/cards/cards.pyx"]),
            *COMPILED_PARTS,
        ],
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": CHECKS,
            "wraparound": False,
            "cdivision": not CHECKS,
            "initializedcheck": CHECKS,
        },
        force=CHECKS,
    ),
)
