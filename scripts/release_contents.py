# SPDX-License-Identifier: Apache-2.0
"""Lists what is in a release as a CycloneDX 1.5 document, on stdout: the files, and of third parties what is compiled or linked into
the wheel, by the Debian packages that it came from. Everything in it follows from the files, the commit and the packages.

    release_contents.py FOLDER VERSION COMMIT PACKAGE..."""

import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import uuid

#: Debian's copyright files are prose to a program: the licences of what is linked in, as SPDX names them.
LICENCES = {
    "liblz4-dev": "BSD-2-Clause", "libzstd-dev": "BSD-3-Clause", "libhwloc-dev": "BSD-3-Clause", "liburing-dev": "MIT",
    "libssl-dev": "Apache-2.0", "libxxhash-dev": "BSD-2-Clause", "nlohmann-json3-dev": "MIT", "libcli11-dev": "BSD-3-Clause",
}  # fmt: skip


def package(name):
    """One Debian package that is in the wheel. Its source's name is the project's."""
    shown = subprocess.run(["dpkg-query", "-W", "-f=${source:Package} ${source:Version} ${Version}", name],
                           check=True, capture_output=True, text=True).stdout.split()
    source, version, binary = shown
    distribution = next(line.split("=")[1].strip().strip('"') for line in pathlib.Path("/etc/os-release").read_text().splitlines()
                        if line.startswith("ID="))
    return {
        "type": "library", "bom-ref": f"{source}@{version}", "name": source, "version": version,
        "licenses": [{"license": {"id": LICENCES[name]}}], "purl": f"pkg:deb/{distribution}/{name}@{binary}",
    }  # fmt: skip


def nvtx(version):
    """The header that NVIDIA's profilers are called by, where it was built in: scripts/vendor-headers fetched it."""
    if not version:
        return []
    return [{
        "type": "library", "bom-ref": f"nvtx@{version}", "name": "nvtx", "version": version,
        "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}], "purl": f"pkg:pypi/nvidia-nvtx@{version}",
    }]  # fmt: skip


def artefact(path):
    return {"type": "file", "bom-ref": path.name, "name": path.name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]}


def main():
    folder, version, commit, *packages = sys.argv[1:]
    files = [path for path in sorted(pathlib.Path(folder).iterdir()) if not path.name.endswith(".cdx.json")]
    linked = sorted([*map(package, packages), *nvtx(os.environ.get("WEIR_NVTX_VERSION"))], key=lambda found: found["bom-ref"])
    wheels = [path.name for path in files if path.suffix == ".whl"]
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    whole = f"weir@{version}"
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, commit)}",
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "library", "bom-ref": whole, "name": "weir", "version": version,
                          "licenses": [{"license": {"id": "Apache-2.0"}}],
                          "properties": [{"name": "weir:commit", "value": commit}]},
        },
        "components": [*map(artefact, files), *linked],
        "dependencies": [{"ref": whole, "dependsOn": [path.name for path in files]},
                         *({"ref": name, "dependsOn": [found["bom-ref"] for found in linked]} for name in wheels)],
    }  # fmt: skip
    print(json.dumps(document, indent=2))


main()
