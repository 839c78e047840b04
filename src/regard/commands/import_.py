"""`regard import SOURCE -o RUN`: convert a pretrained model into a run."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard import api
from regard.pretrained.families import read
from regard.pretrained.imported import write_run
from regard.pretrained.sources import find


@dataclass(frozen=True)
class Report:
    run: str
    source: str
    job: str
    about: str
    parameters: int
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        lines = [f"{self.about}: {self.parameters:,} parameters, a run of the job `{self.job}` in {self.run}"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def import_model(source: str, output: Path, *, convert_pickle: bool = False) -> Report:
    found = read(find(source, pickles=convert_pickle), convert_pickle=convert_pickle)
    write_run(found, output, source=source)
    try:
        run = api.load(output)  # check that all weights fit the model that the recipe builds
    except BaseException:
        shutil.rmtree(output)
        raise
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    return Report(str(output), source, run.recipe.job, run.recipe.about, parameters, found.notes)
