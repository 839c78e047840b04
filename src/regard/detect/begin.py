"""Create a recipe from data, and print what was found."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import yaml

from regard import config, jobs
from regard.data.columns import SYNONYMS
from regard.detect.detect import HUB, detect
from regard.detect.detected import Detected, Hints
from regard.detect.files import is_archive, unpack
from regard.detect.given import drop_missing, materialize, white_of
from regard.detect.reshaped import RESHAPED, wide_to_long
from regard.detect.rewritten import normalize_encoding
from regard.errors import CallError
from regard.files import atomic
from regard.files.lines import files_of, is_pattern
from regard.settings.recipe import CONFIG
from regard.work import Deadline, showing_progress

if TYPE_CHECKING:
    from regard.detect.plan import RecipePlan

# The record of a run's source: its data, by path and digest, and the requested settings (RUN/source.json).
#
# A run is never reused for other data. A request with other data and the same folder is refused; the error names
# both.

RECORD = "source.json"
START_AGAIN = "--fresh (in Python overwrite=True) starts again in it, another folder (-o) keeps both"
WHOLE = 1 << 30  # bytes of data up to which all of it is read for the digest
ENDS = 1 << 20  # bytes that are read at both ends of each file in larger data


@dataclass(frozen=True)
class DataSource:
    """The requested data. `name`: as the user wrote it, or a name for a Python object."""

    name: str
    digest: str
    job: str | None = None
    time_limit: float | None = None

    def differences(self, now: "DataSource") -> list[str]:
        """Return the requests that differ from the earlier ones, each with both values."""
        found = []
        if self.digest != now.digest:
            same = self.name == now.name
            found.append(f"{self.name} has changed since" if same else f"data: {self.name} before, {now.name} now")
        for what, before, wanted in (("--job", self.job, now.job), ("--time-limit", self.time_limit, now.time_limit)):
            if wanted is not None and wanted != before:
                found.append(f"{what}: {'none' if before is None else before} before, {wanted} now")
        return found

    def write(self, folder: Path) -> None:
        atomic.write_text(folder / RECORD, json.dumps(asdict(self), ensure_ascii=False, indent=1))


def read_record(folder: Path) -> DataSource | None:
    """Return the source of the run in a folder, if it was made from data."""
    try:
        return DataSource(**json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def source_of(data: Any, run: Path, **requested: Any) -> DataSource:
    """Return the source that `data` is. A Python object is written to a folder for its digest."""
    if isinstance(data, str | Path):
        return DataSource(data_name(str(data)), digest(str(data), run), **requested)
    with TemporaryDirectory(prefix="regard-") as folder:
        place = materialize(data, Path(folder))
        if not any(Path(folder).iterdir()):  # a list of files
            return DataSource(data_name(place), digest(place, run), **requested)
        return DataSource(f"data from Python ({type(data).__name__})", digest(folder), **requested)


def data_name(data: str) -> str:
    """Return the name of data: the same for ./pairs.tsv and pairs.tsv."""
    return ",".join(str(Path(part.strip())) for part in data.split(","))


def digest(data: str, run: Path | None = None) -> str:
    """Return the digest of names and contents of all files, except those of the run. For a dataset of the hub, its
    name."""
    files = [*_files(data, run)]
    found = blake2b(digest_size=16)
    sizes = [file.stat().st_size for _, file in files]
    whole = sum(sizes) <= WHOLE
    for (name, file), size in zip(files, sizes, strict=True):
        found.update(f"{name}\0{size}\0".encode())
        with file.open("rb") as opened:
            if whole or size <= 2 * ENDS:
                while piece := opened.read(ENDS):
                    found.update(piece)
                continue
            found.update(opened.read(ENDS))
            opened.seek(-ENDS, 2)
            found.update(opened.read())
    return found.hexdigest() if files else data


def _files(data: str, run: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield names and files; a name does not depend on the location of the data."""
    whole = is_pattern(data) or Path(data).expanduser().exists()
    places = [place for part in ([data] if whole else data.split(",")) for place in files_of(part.strip())]
    for number, one in enumerate(places):
        if one.is_file():
            yield f"{number}", one
        elif one.is_dir():
            for file in sorted(one.rglob("*")):
                if file.is_file() and not (run and file.absolute().is_relative_to(run.absolute())):
                    yield str(file.relative_to(one)), file


def _trained_on(folder: Path) -> str:
    """Return what a run with a recipe of another kind was trained on."""
    data = config.load_yaml(folder / "config.yaml").get("data") if (folder / "config.yaml").is_file() else None
    return str(data["train"]) if isinstance(data, dict) and "train" in data else "other data"


def refuse_other_source(folder: Path, now: DataSource) -> None:
    """Raise if the run in a folder was made for another source, or for none."""
    before = read_record(folder)
    if before is None:
        raise CallError(f"{folder} holds a run of {_trained_on(folder)}, not of {now.name}: {START_AGAIN}")
    if found := before.differences(now):
        raise CallError(
            f"{folder} holds a run of other data or settings:\n  " + "\n  ".join(found) + f"\n{START_AGAIN}"
        )


# The user's recipe as a file: every decided value with its reason beside it.

_WIDTH = 46  # column where reasons begin


RECIPE = "recipe.yaml"


def note_time_limit(folder: Path, seconds: float) -> None:
    """Change the limit of training in the recipe of a folder, if it has one."""
    file = folder / RECIPE
    if file.is_file():
        text = file.read_text(encoding="utf-8")
        atomic.write_text(file, re.sub(r"(?m)^  time_limit: \S+", f"  time_limit: {seconds}", text, count=1))


def as_yaml(planned: "RecipePlan", data: str) -> str:
    head = [f"# A recipe made for {data}", "# Change what you like, then: regard train THIS_FILE -o RUN", ""]
    return "\n".join([*head, *_lines(planned.tree, planned.reasons, ())]) + "\n"


def _lines(tree: Mapping[str, Any], reasons: Mapping[str, str], path: tuple[str, ...]) -> Iterator[str]:
    last = ""
    for key, value in tree.items():
        pad, dotted = "  " * len(path), ".".join((*path, str(key)))
        if isinstance(value, Mapping) and value and dotted not in reasons:
            yield f"{pad}{key}:"
            yield from _lines(value, reasons, (*path, str(key)))
            continue
        style = '"' if "\\n" in repr(value) else None  # else a line feed would be one in the file
        written = yaml.safe_dump(value, default_flow_style=True, default_style=style, width=10**6, allow_unicode=True)
        line = f"{pad}{key}: {written.removesuffix(chr(10)).removesuffix(chr(10) + '...')}"
        why = reasons.get(dotted, "")
        yield f"{line:<{_WIDTH}} # {'〃' if why == last else why}".rstrip() if why else line
        last = why


DEFAULT_TIME = 600.0  # seconds, if the user gives no limit
_LONGEST = 100  # characters of an example that are shown


def is_data(name: Any) -> bool:
    """Return whether the argument is data (an existing file or folder, or a Python object), not a recipe."""
    if not isinstance(name, str | Path):
        return not isinstance(name, config.Recipe)
    text = str(name)
    if text.startswith(HUB):
        return True
    if text in config.packaged_recipes() or Path(text).suffix in (".yaml", ".yml"):
        return False
    if is_pattern(text):
        return bool(files_of(text))
    return Path(text).expanduser().exists() or ("," in text and Path(text.split(",")[0]).expanduser().exists())


def make_recipe(
    data: Any,
    folder: Path,
    *,
    job: str | None = None,
    seconds: float | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    report: Callable[[str], None] = lambda message: None,
    sure: Callable[[str], bool] = lambda doubt: True,
    deadline: Deadline | None = None,
) -> Path:
    """Detect what data holds, decide on a recipe, and write it to `folder`. A run that has a recipe keeps it.

    `sure(doubt)` is called where two readings are possible; False stops. `deadline`: when the whole command must be
    done, by default `seconds` from now.
    """
    file = folder / RECIPE
    with showing_progress("reading the data"):
        source = source_of(data, folder, job=job, time_limit=seconds)
    if file.exists() or (folder / CONFIG).exists():
        refuse_other_source(folder, source)
        report(f"{file} was made for this data: training resumes with it")
        return file
    place = str(data) if isinstance(data, str | Path) else materialize(data, folder / "data", report)
    if (white := white_of(data)) != 1:
        overrides = config.override({"data": {"white": white}}, overrides)
    if is_archive(Path(place).expanduser()):
        place = str(unpack(Path(place).expanduser(), folder / "data", report))
    told = _hints(job, overrides)
    with showing_progress(f"looking at {source.name}"):
        place = wide_to_long(normalize_encoding(place, folder / "data-utf8", report), told, folder / RESHAPED, report)
        found = detect(place, told)
    columns = [] if isinstance(data, str | Path) else _required_columns(found)
    if columns and drop_missing(Path(place), columns, report):
        found = detect(place, told)
    for line in describe(found):
        report(line)
    if found.doubt and not sure(found.doubt):
        raise CallError(f"not sure: {found.doubt}; choose with data.*=..., or accept the best guess with --yes")
    from regard.detect.plan import plan  # trains briefly, and loads everything that training needs

    limit = seconds or DEFAULT_TIME
    planned = plan(
        found, limit, job=job, overrides=overrides, start=folder / "start", report=report,
        deadline=deadline or Deadline(limit), requested=seconds is not None, folder=folder,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    where = data if isinstance(data, str | Path) else folder / "data"
    source.write(folder)
    atomic.write_text(file, as_yaml(planned, str(where)))
    report(f"the recipe, with the reasons of its values: {file}")
    return file


def _required_columns(found: Detected) -> list[str]:
    """Return the columns in which every row must have a cell. Several labels and an answer may be empty."""
    none = {"start"} | ({"label"} if "separator" in found.data else set())
    sides = [side for side in found.data if side in SYNONYMS and side not in none and f"no_{side}" not in found.data]
    return [found.data[side] for side in sides if isinstance(found.data[side], str)]


def _hints(job: str | None, overrides: Iterable[str] | Mapping[str, Any]) -> Hints:
    data = config.override({}, overrides).get("data")
    said = {said for (_, said), (name, _) in jobs.FROM_DATA.items() if name == job}
    return Hints(data if isinstance(data, dict) else {}, frozenset(said))


def describe(found: Detected) -> Iterable[str]:
    yield (
        f"this is {found.kinds[0]} → {found.kinds[1]}, {found.count:,} examples"
        if found.kinds[0] != "nothing"
        else "text"
    )
    yield from (f"  {belief}" for belief in found.beliefs)
    for one, other in found.shown:
        yield f"  e.g. {_short(one)}" + (f"  →  {_short(other)}" if other else "")
    if found.doubt:
        yield f"  not sure: {found.doubt}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
