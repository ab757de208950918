"""Builds the package for pip (PEP 517 and 660), with the standard library alone: runs CMake on the C++ tree above this folder
and packs the extension with the Python files into a wheel.

The build folder is kept, so that the next build is quick: build-python/ beside this folder, or the one that is named by
pip install ./python --config-settings build-dir=DIR. Compilers' output is only shown when something fails."""
import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(HERE)
PACKAGE = os.path.join(HERE, "embers")
NAME = "embers"


# --- what pip asks for -----------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = os.path.join(metadata_directory, dist_info())
    os.makedirs(folder, exist_ok=True)
    for name, text in metadata().items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    return dist_info()


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    extension = build(config_settings)
    kernels = os.path.join(os.path.dirname(extension), "libembers_cuda.so")  # where there is a CUDA compiler
    with Wheel(wheel_directory) as wheel:
        for path in package_files():
            wheel.add_file(path, f"{NAME}/{os.path.relpath(path, PACKAGE)}")
        for path in (extension, kernels) if os.path.exists(kernels) else (extension,):
            wheel.add_file(path, f"{NAME}/{os.path.basename(path)}")
    return wheel.name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The build folder has links to the package's files, beside the extension: that folder is put on the path."""
    extension = build(config_settings)
    with Wheel(wheel_directory) as wheel:
        wheel.add(f"__editable__.{NAME}.pth", os.path.dirname(os.path.dirname(extension)) + "\n")
    return wheel.name


# --- the extension ---------------------------------------------------------------------------------


def build(config_settings):
    """Returns the path of the extension."""
    if not os.path.exists(os.path.join(TREE, "client", "session.h")):
        raise SystemExit(f"embers is built from its C++ tree, which is not at {TREE}: run pip install on the folder python/ "
                         "of a clone")
    folder = os.path.abspath((config_settings or {}).get("build-dir") or os.path.join(TREE, "build-python"))
    extension = os.path.join(folder, "python", NAME, "_core" + sysconfig.get_config_var("EXT_SUFFIX"))
    generator = ["-G", "Ninja"] if works("ninja", "--version") else []
    if os.path.exists(os.path.join(folder, "CMakeCache.txt")):
        generator = []  # the one that it has
    run("cmake", "-S", TREE, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DEMBERS_ONLY_PYTHON=ON",
        f"-DPython_EXECUTABLE={sys.executable}")
    with open(os.path.join(folder, "CMakeCache.txt"), encoding="utf-8") as cache:
        has_cuda = re.search(r"^CMAKE_CUDA_COMPILER:\w+=/", cache.read(), re.MULTILINE)
    targets = ["embers_python", "embers_cuda"] if has_cuda else ["embers_python"]
    run("cmake", "--build", folder, "--target", *targets, "--parallel", str(jobs()))
    if not os.path.exists(extension):
        raise SystemExit(f"the build did not make {extension}")
    return extension


def works(*command):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def run(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              check=False)
    except OSError as e:
        raise SystemExit(f"{command[0]}: {e.strerror}; building embers needs what deploy/packages.txt lists") from e
    if done.returncode != 0:
        print(done.stdout[-20000:], file=sys.stderr)
        raise SystemExit(f"{' '.join(command)} failed; building embers needs what deploy/packages.txt lists")


def jobs():
    """As many as there are processors, but no more than memory allows: a file takes up to 1 GiB."""
    processors = len(os.sched_getaffinity(0))
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = int(re.search(r"MemAvailable:\s+(\d+)", file.read()).group(1)) >> 20
    except (OSError, AttributeError):
        available = processors
    return max(1, min(processors, available))


# --- the package -----------------------------------------------------------------------------------


def version():
    with open(os.path.join(TREE, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(embers VERSION ([0-9.]+)", file.read()).group(1)


def package_files():
    found = []
    for folder, folders, names in os.walk(PACKAGE):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        found += [os.path.join(folder, name) for name in sorted(names)
                  if name.endswith((".py", ".pyi")) or name == "py.typed"]
    return found


def dist_info():
    return f"{NAME}-{version()}.dist-info"


def tag():
    interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
    # No manylinux: the extension links the C++ libraries of this distribution.
    return f"{interpreter}-{interpreter}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def project():
    """Of pyproject.toml: what METADATA repeats. Python 3.10 has no parser of TOML."""
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:
        text = file.read()
    values = dict(re.findall(r'^([\w-]+) = "(.*)"$', text, re.M))
    values["dependencies"] = re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.*?)\]", text, re.M | re.S).group(1))
    return values


def metadata():
    values = project()
    with open(os.path.join(HERE, values["readme"]), encoding="utf-8") as file:
        readme = file.read()
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {version()}", f"Summary: {values['description']}",
             f"Requires-Python: {values['requires-python']}"]
    lines += [f"Requires-Dist: {d}" for d in values["dependencies"]]
    lines += ["Description-Content-Type: text/markdown", "", readme]
    return {
        "METADATA": "\n".join(lines),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: embers\nRoot-Is-Purelib: false\nTag: {tag()}\n",
    }


class Wheel:
    """A wheel that is being written. Equal contents give equal bytes."""

    def __init__(self, directory):
        self.name = f"{NAME}-{version()}-{tag()}.whl"
        self._path = os.path.join(directory, self.name)
        self._record = []

    def __enter__(self):
        self._zip = zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED)
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            for name, text in metadata().items():
                self.add(f"{dist_info()}/{name}", text)
            record = f"{dist_info()}/RECORD"
            self._write(record, ("\n".join([*self._record, f"{record},,"]) + "\n").encode())
        self._zip.close()

    def add_file(self, path, name):
        with open(path, "rb") as file:
            self.add(name, file.read())

    def add(self, name, content):
        content = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")
        self._write(name, content)

    def _write(self, name, content):
        info = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
        self._zip.writestr(info, content)
