"""A virtual environment in which torch and what it requires can be imported, and nothing else: no pip, no kevin.

torch is linked from this interpreter's environment instead of installed again, which would take minutes; packages are
installed into it by this interpreter's pip, as wheels and without an index.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def make(home: Path) -> Path:
    """The interpreter of a new environment in `home`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = site_of(home)
    for name in sorted(_required("torch", set())):
        for entry in _top_level(name):
            if not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    return home / "bin" / "python"


def site_of(home: Path) -> Path:
    return home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def wheel(package: Path, folder: Path) -> Path:
    """The wheel that pip builds of a written package."""
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(package)], check=True)
    (made,) = folder.glob(f"{package.name}-*.whl")
    return made


def install(python: Path, *wheels: Path) -> None:
    arguments = ["install", "--no-deps", "--no-index", *map(str, wheels)]
    subprocess.run([*PIP, "--python", str(python), *arguments], check=True)


def uninstall(python: Path, distribution: str) -> None:
    subprocess.run([*PIP, "--python", str(python), "uninstall", "--yes", distribution], check=True)


def listing(home: Path) -> set[str]:
    """Every path in site-packages but compiled Python and what lies behind the links."""
    site = site_of(home)
    found = {entry for entry in site.iterdir() if not entry.is_symlink()}
    inside = {path for entry in found if entry.is_dir() for path in entry.rglob("*")}
    return {path.relative_to(site).as_posix() for path in found | inside if "__pycache__" not in path.parts}


def _required(name: str, found: set[str]) -> set[str]:
    """The distribution and what it requires here, without extras."""
    try:
        requirements = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return found
    found.add(name)
    for text in requirements:
        needed = re.match(r"[\w.-]+", text)
        if needed and "extra ==" not in text and needed[0] not in found:
            _required(needed[0], found)
    return found


def _top_level(name: str) -> set[Path]:
    """What lies in site-packages of a distribution."""
    distribution = importlib.metadata.distribution(name)
    parts = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {Path(str(distribution.locate_file(part))) for part in parts}
