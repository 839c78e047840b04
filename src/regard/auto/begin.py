"""Create a recipe from data, and print what was found."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from regard import config, jobs
from regard.auto.archives import is_archive, unpacked
from regard.auto.detect import HUB, detect
from regard.auto.detected import Detected
from regard.auto.given import as_path, drop_missing, white_of
from regard.auto.record import refuse_other_source, source_of
from regard.auto.reshaped import RESHAPED, reshaped
from regard.auto.rewritten import rewritten
from regard.auto.told import Told
from regard.auto.write import RECIPE, as_yaml
from regard.data.columns import SYNONYMS
from regard.errors import CallError
from regard.files import atomic
from regard.files.shards import files_of, is_pattern
from regard.work import Deadline

CONFIG = "config.yaml"
DEFAULT_TIME = 600.0  # seconds, if the user gives no limit
_LONGEST = 100  # characters of an example that are shown


def is_data(name: Any) -> bool:
    """Return whether the argument is data (an existing file or folder, or a Python object), not a recipe."""
    if not isinstance(name, str | Path):
        return not isinstance(name, config.Recipe)
    text = str(name)
    if text.startswith(HUB):
        return True
    if text in config.packaged() or Path(text).suffix in (".yaml", ".yml"):
        return False
    if is_pattern(text):
        return bool(files_of(text))
    return Path(text).expanduser().exists() or ("," in text and Path(text.split(",")[0]).expanduser().exists())


def begin(
    data: Any,
    folder: Path,
    *,
    job: str | None = None,
    seconds: float | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    tell: Callable[[str], None] = lambda message: None,
    sure: Callable[[str], bool] = lambda doubt: True,
    deadline: Deadline | None = None,
) -> Path:
    """Detect what data holds, decide on a recipe, and write it to `folder`. A run that has a recipe keeps it.

    `sure(doubt)` is called where two readings are possible; False stops. `deadline`: when the whole command must be
    done, by default `seconds` from now.
    """
    file = folder / RECIPE
    source = source_of(data, folder, job=job, time_limit=seconds)
    if file.exists() or (folder / CONFIG).exists():
        refuse_other_source(folder, source)
        tell(f"{file} was made for this data: training resumes with it")
        return file
    place = str(data) if isinstance(data, str | Path) else as_path(data, folder / "data", tell)
    if (white := white_of(data)) != 1:
        overrides = config.override({"data": {"white": white}}, overrides)
    if is_archive(Path(place).expanduser()):
        place = str(unpacked(Path(place).expanduser(), folder / "data", tell))
    told = _told(job, overrides)
    place = reshaped(rewritten(place, folder / "data-utf8", tell), told, folder / RESHAPED, tell)
    found = detect(place, told)
    columns = [] if isinstance(data, str | Path) else _required(found)
    if columns and drop_missing(Path(place), columns, tell):
        found = detect(place, told)
    for line in described(found):
        tell(line)
    if found.doubt and not sure(found.doubt):
        raise CallError(f"not sure: {found.doubt}; choose with data.*=..., or accept the best guess with --yes")
    from regard.auto.plan import plan  # trains briefly, and loads everything that training needs

    limit = seconds or DEFAULT_TIME
    planned = plan(
        found, limit, job=job, overrides=overrides, start=folder / "start", tell=tell,
        deadline=deadline or Deadline(limit), requested=seconds is not None, folder=folder,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    where = data if isinstance(data, str | Path) else folder / "data"
    source.write(folder)
    atomic.write_text(file, as_yaml(planned, str(where)))
    tell(f"the recipe, with the reasons of its values: {file}")
    return file


def _required(found: Detected) -> list[str]:
    """Return the columns in which every row must have a cell. Several labels and an answer may be empty."""
    none = {"start"} | ({"label"} if "separator" in found.data else set())
    sides = [side for side in found.data if side in SYNONYMS and side not in none and f"no_{side}" not in found.data]
    return [found.data[side] for side in sides if isinstance(found.data[side], str)]


def _told(job: str | None, overrides: Iterable[str] | Mapping[str, Any]) -> Told:
    data = config.override({}, overrides).get("data")
    said = {said for (_, said), (name, _) in jobs.FROM_DATA.items() if name == job}
    return Told(data if isinstance(data, dict) else {}, frozenset(said))


def described(found: Detected) -> Iterable[str]:
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
