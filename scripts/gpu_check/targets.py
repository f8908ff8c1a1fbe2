# SPDX-License-Identifier: Apache-2.0
"""What is checked: backends that have a real device on this machine, or, with --simulated, those that have a driver of
lib/drivers to stand on. A target is a backend and the environment that makes it find its runtime."""
import dataclasses
import glob
import os

# A granule of NVIDIA's and AMD's virtual memory: tests count in pages of it.
REAL_PAGE = 2 << 20
# Large enough for bench_device at the size of --simulated.
SIMULATED_MACHINE = "memory=1G;mode=strict"
# Stand before a driver and note which call each thread is in: the library, the variable that names it to the backend, and the one
# that names the driver behind it, in the place of libcuda.so.1 or libvulkan.so.1.
WATCHED = {"cuda": ("libweir_watched_cuda.so", "WEIR_CUDA_LIBRARY", "WEIR_WATCHED_LIBRARY"),
           "vulkan": ("libweir_watched_vulkan.so", "WEIR_VULKAN_LIBRARY", "WEIR_WATCHED_VULKAN_LIBRARY")}
# What backends through standard interfaces say of implementations that run on the CPU: those are no cards.
ON_THE_CPU = {"vulkan": ", on the CPU", "opencl": "Portable Computing Language"}
# Mesa's driver for the CPU, where Debian has it.
LAVAPIPE = "/usr/share/vulkan/icd.d/lvp_icd*.json"


def named_library(backend="cuda"):
    """The driver that the caller's environment names."""
    return os.environ.get(WATCHED[backend][1], "")


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
    options: str = ""  # of the backend, for the conformance suite
    vmm: bool = True   # whether its first device has virtual memory

    @property
    def group(self):
        """Standard interfaces come after the vendors' own; a look-alike is about our own code more than about the card."""
        return 2 if self.look_alike else 1 if self.backend in ON_THE_CPU else 0

    @property
    def card(self):
        """What all targets that use a real device share: when its driver is stuck, it is for all of them."""
        return "gpu" if self.real else ""


def watching(tree, variable="", library="", backend="cuda"):
    """The environment in which calls of that driver are noted on their way; {} where that can't be."""
    if backend not in tree.watched:
        return {}
    file, own, behind = WATCHED[backend]
    return {variable or own: str(tree.driver(file))} | ({behind: library} if library else {})


def host_target():
    return Target("host", "host", False, "", "", {}, {})


def on_cpu(backend):
    return ON_THE_CPU.get(backend["name"], "\n") in backend.get("version", "")


def has_vmm(backend):
    return all("vmm" in device.get("capabilities", ["vmm"]) for device in backend["devices"][:1])


def left_out(devices):
    """Of Vulkan, why it is no target here; None where it is one. Other backends' reasons stand in `devices`."""
    for backend in devices.get("backends", []):
        if backend["name"] == "vulkan":
            if backend.get("devices"):
                return "its only device runs on the CPU: " + backend["devices"][0]["name"] if on_cpu(backend) else None
            return backend.get("reason") or "it has no device"
    return "the Vulkan backend is not built"


def real_targets(tree, devices):
    """From what `weir devices --json` told."""
    found = []
    for backend in devices.get("backends", []):
        if backend["name"] == "host" or not backend.get("available") or not backend.get("devices") or on_cpu(backend):
            continue
        name = backend["name"]
        environment = watching(tree, library=named_library(name), backend=name) if name in WATCHED else {}
        found.append(Target(name, name, True, backend["devices"][0]["name"], backend.get("version", ""), environment,
                            environment | {"WEIR_TEST_BACKEND": name, "WEIR_TEST_PAGE": str(REAL_PAGE)}, vmm=has_vmm(backend)))
    names = {target.name for target in found}
    look_alike = tree.driver("libweir_hip_over_cuda.so")
    if "cuda" in names and "hip" not in names and tree.has_backend("hip") and look_alike.is_file():
        cuda = next(target for target in found if target.name == "cuda")
        environment = {"WEIR_HIP_LIBRARY": str(look_alike)} | watching(tree, "WEIR_HIP_CUDA_LIBRARY", named_library())
        found.append(Target("hip over cuda", "hip", True, cuda.device, "look-alike over CUDA " + cuda.runtime, environment,
                            environment | {"WEIR_TEST_BACKEND": "hip", "WEIR_TEST_PAGE": str(REAL_PAGE)}, True))
    return found


def simulated_targets(tree, devices):
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
    return found + vulkan_on_cpu(tree, devices)


def vulkan_on_cpu(tree, devices):
    """Vulkan has no simulated driver: where there is one that runs on the CPU, that is taken."""
    manifests = glob.glob(LAVAPIPE)
    told = next((one for one in devices.get("backends", []) if one["name"] == "vulkan" and one.get("devices")), None)
    if not manifests or not tree.has_backend("vulkan") or told is None:
        return []
    environment = {"VK_DRIVER_FILES": manifests[0], "VK_ICD_FILENAMES": manifests[0], "LP_NUM_THREADS": "2"} | watching(
        tree, library=named_library("vulkan"), backend="vulkan")
    return [Target("vulkan simulated", "vulkan", False, "", "", environment, environment | {"WEIR_TEST_BACKEND": "vulkan"},
                   options="cpu=1;granule=64K;memory=512M", vmm=on_cpu(told) and has_vmm(told))]


def has_devices(devices, name):
    """Whether `weir devices --json` told of devices of that backend."""
    return any(backend["name"] == name and backend.get("available") and backend.get("devices")
               for backend in devices.get("backends", []))
