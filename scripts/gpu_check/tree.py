# SPDX-License-Identifier: Apache-2.0
"""A tree that can be checked: a build tree, or a folder that --pack made of one.

Both have bin/, lib/, lib/weir/1/ and lib/drivers/. A packed tree also has a manifest, which says what a repository would
say: the revision, and which programs are the C ABI's tests.
"""
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

MANIFEST = "gpu-check.json"
RUNTIME = "lib/runtime"  # of a packed tree: libstdc++ and libgcc_s, for machines whose own are too old or missing
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent

# Beside the C ABI's tests, what the steps run.
PROGRAMS = ["weir", "weir-conformance", "bench_device", "bench_driver", "fuzz_pool", "test_faults"]
DRIVERS = ["libweir_watched_cuda.so", "libweir_hip_over_cuda.so"]
# Where the Vulkan backend is built.
VULKAN_PROGRAMS = ["bench_vulkan"]
VULKAN_DRIVERS = ["libweir_watched_vulkan.so"]
WAIVERS = ["vulkan.waivers"]
SCRIPTS = ["allocation_torch.py", "offload_torch.py"]


def output_of(*command, cwd=None, env=None):
    """What a command prints, or "" where it is not there or fails. For what asks no driver: it must end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=cwd, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def abi_tests(repository=REPOSITORY):
    """The C ABI's tests that are about every backend and need no simulated driver, as cmake/WeirTests.cmake has it."""
    text = (repository / "cmake/WeirTests.cmake").read_text(encoding="utf-8")
    others = [name for which in ("host", "simulated")
              for name in re.search(rf"set\(weir_{which}_only ([^)]*)\)", text).group(1).split()]
    folder = repository / "tests/abi"
    names = {path.stem for suffix in ("c", "cpp") for path in folder.glob(f"test_*.{suffix}")}
    return sorted(names - set(others))


def named_in(repository, name):
    """What cmake/WeirDrivers.cmake sets a list to, where it is not empty."""
    text = (repository / "cmake/WeirDrivers.cmake").read_text(encoding="utf-8")
    return re.search(rf"set\({name} ([^)]+)\)", text).group(1).split()


def vulkan_tests(repository=REPOSITORY):
    """Of the C ABI's tests, those that the inner ring runs on Vulkan."""
    names = named_in(repository, "weir_tests_on_vulkan") + named_in(repository, "weir_tests_on_vulkan_sparse")
    return sorted(name for name in names if name.startswith("test_"))


def vulkan_tests_without_vmm(repository=REPOSITORY):
    """Of those, the ones that it runs on a driver without sparse binding."""
    return named_in(repository, "weir_tests_on_vulkan")


def build_type(build):
    cache = build / "CMakeCache.txt"
    if not cache.is_file():
        return ""
    found = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else ""


def describe(build):
    """What is known of a build tree of this repository: the manifest of a packed one."""
    return {
        "schema": 1,
        "revision": output_of("git", "rev-parse", "HEAD", cwd=REPOSITORY),
        "modified": bool(output_of("git", "status", "--porcelain", "--untracked-files=no", cwd=REPOSITORY)),
        "built_on": platform.platform(),
        "build_type": build_type(build),
        "described": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "abi_tests": abi_tests(),
        "vulkan_tests": vulkan_tests(),
        "vulkan_tests_without_vmm": vulkan_tests_without_vmm(),
    }


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        manifest = self.root / MANIFEST
        self.packed = manifest.is_file()
        self.about = json.loads(manifest.read_text(encoding="utf-8")) if self.packed else describe(self.root)
        self.watched = set()    # backends whose steps note their calls of the driver
        self.runtime = False    # whether programs need the packed libstdc++

    def program(self, name):
        return self.root / "bin" / name

    def driver(self, name):
        return self.root / "lib/drivers" / name

    def script(self, name):
        return (self.root if self.packed else REPOSITORY) / "bench" / name

    def waivers(self, backend):
        return (self.root / "conformance" if self.packed else REPOSITORY / "tests/conformance") / f"{backend}.waivers"

    def has_backend(self, name):
        return (self.root / f"lib/weir/1/libweir_backend_{name}.so").is_file()

    def bare_environment(self):
        """The caller's environment, less what would steer Weir or its tests elsewhere."""
        ours = ("WEIR_TEST_", "WEIR_OPTIONS")
        return {name: value for name, value in os.environ.items() if not name.startswith(ours)}

    def environment(self, extra):
        """For programs of the tree, with `extra`. Those of a packed tree find its libraries by LD_LIBRARY_PATH."""
        base = self.bare_environment()
        if self.packed:
            folders = [str(self.root / "lib")] + ([str(self.root / RUNTIME)] if self.runtime else [])
            base["LD_LIBRARY_PATH"] = ":".join(folders + [path for path in [base.get("LD_LIBRARY_PATH", "")] if path])
        return base | {"WEIR_BIN_DIR": str(self.root / "bin"), "WEIR_LIB_DIR": str(self.root / "lib"),
                       "WEIR_SOURCE_DIR": str(REPOSITORY),
                       # Figures that somebody measured here before are none of the tests' business.
                       "WEIR_CACHE_DIR": str(self.root / "cache")} | extra

    def choose_runtime(self):
        """The machine's own libstdc++, if programs of a packed tree load with it; else the packed one."""
        if not self.packed or output_of(str(self.program("weir")), "--version", env=self.environment({})):
            return
        self.runtime = True
        if not output_of(str(self.program("weir")), "--version", env=self.environment({})):
            self.runtime = False  # then it is not that


def build_here(preset="release"):
    """Builds the repository with CMake and Ninja; returns the build tree, or None if it can't be built here."""
    if shutil.which("cmake") is None or not (REPOSITORY / "CMakePresets.json").is_file():
        return None
    jobs = os.environ.get("WEIR_JOBS", str(os.cpu_count() or 2))
    for command in (["cmake", "--preset", preset], ["cmake", "--build", "--preset", preset, "-j", jobs]):
        if subprocess.run(command, cwd=REPOSITORY, check=False).returncode != 0:
            return None
    return REPOSITORY / "build" / preset
