# SPDX-License-Identifier: Apache-2.0
"""What is checked: backends that have a real device on this machine, or, with --simulated, those that have a driver of
lib/drivers to stand on. A target is a backend and the environment that makes it find its runtime."""
import dataclasses

# A granule of NVIDIA's and AMD's virtual memory: tests count in pages of it.
REAL_PAGE = 2 << 20
# Large enough for bench_device at the size of --simulated.
SIMULATED_MACHINE = "memory=1G;mode=strict"


@dataclasses.dataclass
class Target:
    name: str          # the backend's, with what it stands on where that is not its own runtime
    backend: str
    real: bool
    device: str        # the first device's name
    runtime: str       # its runtime's version
    environment: dict  # the backend finds its runtime by it
    testing: dict      # what tests/support/target.hpp reads, too


def real_targets(tree, devices):
    """From what `weir devices --json` told."""
    found = []
    for backend in devices.get("backends", []):
        if backend["name"] == "host" or not backend.get("available") or not backend.get("devices"):
            continue
        name = backend["name"]
        found.append(Target(name, name, True, backend["devices"][0]["name"], backend.get("version", ""), {},
                            {"WEIR_TEST_BACKEND": name, "WEIR_TEST_PAGE": str(REAL_PAGE)}))
    names = {target.name for target in found}
    look_alike = tree.driver("libweir_hip_over_cuda.so")
    if "cuda" in names and "hip" not in names and tree.has_backend("hip") and look_alike.is_file():
        cuda = next(target for target in found if target.name == "cuda")
        environment = {"WEIR_HIP_LIBRARY": str(look_alike)}
        found.append(Target("hip over cuda", "hip", True, cuda.device, "look-alike over CUDA " + cuda.runtime, environment,
                            environment | {"WEIR_TEST_BACKEND": "hip", "WEIR_TEST_PAGE": str(REAL_PAGE)}))
    return found


def simulated_targets(tree):
    """The environments of cmake/WeirDrivers.cmake."""
    cuda, nvml, hip, level_zero = (str(tree.driver(f"libweir_{name}.so")) for name in (
        "sim_cuda", "sim_nvml", "hip_over_cuda", "sim_level_zero"))
    environments = {
        "cuda": (cuda, {"WEIR_CUDA_LIBRARY": cuda, "WEIR_NVML_LIBRARY": nvml}),
        "hip": (cuda, {"WEIR_HIP_LIBRARY": hip, "WEIR_HIP_CUDA_LIBRARY": cuda}),
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
