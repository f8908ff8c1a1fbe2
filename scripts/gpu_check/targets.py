# SPDX-License-Identifier: Apache-2.0
"""What is checked: backends that have a real device on this machine, or, with --simulated, those that have a driver of
lib/drivers to stand on. A target is a backend and the environment that makes it find its runtime."""
import dataclasses
import os

# A granule of NVIDIA's and AMD's virtual memory: tests count in pages of it.
REAL_PAGE = 2 << 20
# Large enough for bench_device at the size of --simulated.
SIMULATED_MACHINE = "memory=1G;mode=strict"
# Stands before a CUDA driver and notes which call each thread is in.
WATCHED = "libweir_watched_cuda.so"


def named_library():
    """The driver that the caller's environment names, in the place of libcuda.so.1."""
    return os.environ.get("WEIR_CUDA_LIBRARY", "")


@dataclasses.dataclass
class Target:
    name: str          # the backend's, with what it stands on where that is not its own runtime
    backend: str
    real: bool
    device: str        # the first device's name
    runtime: str       # its runtime's version
    environment: dict  # the backend finds its runtime by it
    testing: dict      # what tests/support/target.hpp reads, too
    look_alike: bool = False

    @property
    def card(self):
        """What all targets that use a real device share: when its driver is stuck, it is for all of them."""
        return "gpu" if self.real else ""


def watching(tree, variable, library=""):
    """The environment in which calls of the CUDA driver are noted on their way; {} where that can't be."""
    if not tree.watched:
        return {}
    return {variable: str(tree.driver(WATCHED))} | ({"WEIR_WATCHED_LIBRARY": library} if library else {})


def host_target():
    return Target("host", "host", False, "", "", {}, {})


def real_targets(tree, devices):
    """From what `weir devices --json` told."""
    found = []
    for backend in devices.get("backends", []):
        if backend["name"] == "host" or not backend.get("available") or not backend.get("devices"):
            continue
        name = backend["name"]
        environment = watching(tree, "WEIR_CUDA_LIBRARY", named_library()) if name == "cuda" else {}
        found.append(Target(name, name, True, backend["devices"][0]["name"], backend.get("version", ""), environment,
                            environment | {"WEIR_TEST_BACKEND": name, "WEIR_TEST_PAGE": str(REAL_PAGE)}))
    names = {target.name for target in found}
    look_alike = tree.driver("libweir_hip_over_cuda.so")
    if "cuda" in names and "hip" not in names and tree.has_backend("hip") and look_alike.is_file():
        cuda = next(target for target in found if target.name == "cuda")
        environment = {"WEIR_HIP_LIBRARY": str(look_alike)} | watching(tree, "WEIR_HIP_CUDA_LIBRARY", named_library())
        found.append(Target("hip over cuda", "hip", True, cuda.device, "look-alike over CUDA " + cuda.runtime, environment,
                            environment | {"WEIR_TEST_BACKEND": "hip", "WEIR_TEST_PAGE": str(REAL_PAGE)}, True))
    return found


def simulated_targets(tree):
    """The environments of cmake/WeirDrivers.cmake."""
    cuda, nvml, hip, level_zero = (str(tree.driver(f"libweir_{name}.so")) for name in (
        "sim_cuda", "sim_nvml", "hip_over_cuda", "sim_level_zero"))
    environments = {
        "cuda": (cuda, {"WEIR_CUDA_LIBRARY": cuda, "WEIR_NVML_LIBRARY": nvml}
                 | watching(tree, "WEIR_CUDA_LIBRARY", cuda)),
        "hip": (cuda, {"WEIR_HIP_LIBRARY": hip, "WEIR_HIP_CUDA_LIBRARY": cuda}
                | watching(tree, "WEIR_HIP_CUDA_LIBRARY", cuda)),
        "level_zero": (level_zero, {"ZE_ENABLE_ALT_DRIVERS": level_zero}),
    }
    needs = {"cuda": [cuda], "hip": [cuda, hip], "level_zero": [level_zero]}
    found = []
    for backend, (driver, environment) in environments.items():
        missing = [path for path in needs[backend] if not tree.driver(path.rsplit("/", 1)[1]).is_file()]
        if missing or not tree.has_backend(backend):
            continue
        testing = environment | {"WEIR_TEST_BACKEND": backend, "WEIR_TEST_DRIVER": driver}
        found.append(Target(backend + " simulated", backend, False, "", "", environment | {"WEIR_SIM": SIMULATED_MACHINE},
                            testing))
    return found


def has_devices(devices, name):
    """Whether `weir devices --json` told of devices of that backend."""
    return any(backend["name"] == name and backend.get("available") and backend.get("devices")
               for backend in devices.get("backends", []))
