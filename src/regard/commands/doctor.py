"""`regard doctor`: report this machine's hardware, missing packages by job, and the size of caches."""

import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from regard import config
from regard.errors import CallError, pip_install
from regard.files.hub import user_cache
from regard.kernels.compiled import NotCompiledError, compile_kernels
from regard.version import __version__

REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?[^;]*(?:;.*extra == ['\"]([\w-]+)['\"])?")
DEVELOPMENT = {"dev"}  # extras for developers only


@dataclass(frozen=True)
class Extra:
    """A group of optional packages, with the recipes and jobs that need it."""

    name: str
    packages: dict[str, str | None]  # installed version, None if missing
    jobs: list[str]
    recipes: list[str]

    @property
    def missing(self) -> list[str]:
        return [name for name, found in self.packages.items() if found is None]


@dataclass(frozen=True)
class Health:
    """The report of the command."""

    regard: str
    python: str
    torch: str | None
    processor: dict[str, Any]
    memory: int  # bytes
    devices: list[str]
    kernels: str | None  # why they are missing; None if available
    packages: dict[str, str | None]
    extras: list[Extra]
    caches: dict[str, int]  # bytes by folder

    def as_dict(self) -> dict[str, Any]:
        extras = [{**asdict(extra), "missing": extra.missing} for extra in self.extras]
        return {**asdict(self), "extras": extras}

    def lines(self) -> Iterator[str]:
        cpu = self.processor
        yield f"regard {self.regard}, Python {self.python}, {f'torch {self.torch}' if self.torch else 'no torch'}"
        used = f", torch uses {cpu['threads']} threads and {cpu['vector_units']}" if self.torch else ""
        yield f"processor: {cpu['cores']} cores{used}"
        yield f"memory: {_bytes(self.memory)}; devices: {', '.join(self.devices)}"
        missing = f"missing, so torch alone is used, more slowly: {self.kernels}"
        yield f"compiled kernels: {'available' if self.kernels is None else missing}"
        absent = [name for name, found in self.packages.items() if found is None]
        yield f"needed packages: {'all installed' if not absent else 'missing: ' + ', '.join(absent)}"
        yield "extras:"
        for extra in self.extras:
            use = f" for {', '.join(extra.jobs)} ({', '.join(extra.recipes)})" if extra.recipes else ""
            state = "there" if not extra.missing else f"missing {', '.join(extra.missing)}"
            how = f": {pip_install(f'regard[{extra.name}]')}" if extra.missing else ""
            yield f"  {extra.name:<12} {state}{use}{how}"
        yield "caches:" if self.caches else "caches: none here"
        for folder, size in self.caches.items():
            yield f"  {_bytes(size):>10}  {folder}"


def examine(runs: Path = Path("runs")) -> Health:
    """Examine the machine. Caches are searched in the runs of this folder, the user's and the Hugging Face hub's."""
    needed, extras = _requirements()
    processor: dict[str, Any] = {"name": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    devices, torch_version = ["cpu"], None
    with suppress(ModuleNotFoundError):  # not in a light installation
        import torch

        torch_version = str(torch.__version__)
        processor["threads"] = torch.get_num_threads()
        processor["vector_units"] = torch.backends.cpu.get_cpu_capability()
        devices += [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    caches = _caches(runs)  # before the kernels are compiled, which adds a cache
    return Health(
        __version__, platform.python_version(), torch_version, processor, memory, devices, _kernels(),
        {name: _version(name) for name in needed}, extras, caches,
    )  # fmt: skip


def _kernels() -> str | None:
    try:
        compile_kernels()
    except NotCompiledError as problem:
        return str(problem)
    return None


def _requirements() -> tuple[list[str], list[Extra]]:
    """Read the requirements from the package's metadata, and the users of each extra from the recipes."""
    needed: list[str] = []
    optional: dict[str, list[str]] = {}
    for text in requires("regard") or []:
        match = REQUIREMENT.match(text)
        assert match is not None, text
        (needed if match[2] is None else optional.setdefault(match[2], [])).append(match[1])
    recipes = {name: config.load_recipe(file) for name, file in config.packaged_recipes().items()}
    extras = []
    for name, packages in optional.items():
        if name in DEVELOPMENT:
            continue
        users = [recipe for recipe, tree in recipes.items() if name in tree.get("needs", [])]
        jobs = list(dict.fromkeys(recipes[user]["job"] for user in users))
        extras.append(Extra(name, {package: _version(package) for package in packages}, jobs, users))
    return needed, extras


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _caches(runs: Path) -> dict[str, int]:
    folders = sorted(runs.glob("*/cache"))
    with suppress(CallError, RuntimeError):  # a user may have no home folder
        folders.append(user_cache())
        folders.append(Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser())
    found = {str(folder): _size(folder) for folder in folders if folder.is_dir()}
    return {folder: size for folder, size in found.items() if size}


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def _bytes(size: float) -> str:
    units: Sequence[str] = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(units) - 1, (len(str(int(size))) - 1) // 3)
    return f"{size / 1000**power:,.3g} {units[power]}"


def doctor(as_json: bool) -> None:
    from regard.commands.options import emit

    health = examine()
    if as_json:
        return emit(health.as_dict())
    sys.stdout.writelines(f"{line}\n" for line in health.lines())
