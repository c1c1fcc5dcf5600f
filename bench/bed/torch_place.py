"""PyTorch in a virtual environment under a cache folder: made at the first need, used again afterwards."""
import os
import shutil
import subprocess
import sys

from faults import BedFault

VERSION = "2.5.1"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"  # 0.2 GB; those of PyPI bring CUDA along, which takes 5 GB of disk.
MEND = "let the machine reach a package index, name another folder with --cache, or leave the rows out with --only"


def default_cache():
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hetsynth-bed")


def has_torch(python):
    return os.path.exists(python) and subprocess.run([python, "-c", "import torch"], capture_output=True,
                                                     stdin=subprocess.DEVNULL).returncode == 0


def torch_python(cache):
    """The Python that has PyTorch. Throws BedFault where it cannot be installed."""
    folder = os.path.join(cache, f"torch-{VERSION}")
    python = os.path.join(folder, "bin", "python")
    if has_torch(python):
        return python
    print(f"installing PyTorch {VERSION} into {folder} (once)", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(cache, exist_ok=True)
    steps = [[sys.executable, "-m", "venv", folder]]
    install = [python, "-m", "pip", "install", "--quiet", "--retries", "1", f"torch=={VERSION}", "numpy"]
    for words in steps:
        if subprocess.run(words, stdin=subprocess.DEVNULL).returncode:
            raise BedFault(f"`{' '.join(words)}` failed", "install python3-venv")
    for index in (["--index-url", CPU_WHEELS], []):
        subprocess.run(install + index, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if has_torch(python):
            return python
    raise BedFault(f"PyTorch {VERSION} could not be installed", MEND)
