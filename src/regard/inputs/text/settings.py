"""Settings of the source of text pairs."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import Column, FilesSettings, TokenizerSettings, column, held_out


class PairDataSettings(FilesSettings):
    """Pairs of a source and a target text.

    Each of train, valid and test is FILE (.tsv, .csv, .jsonl, .parquet; also .gz, .bz2, .xz, .zst), FILE,FILE (two
    parallel text files), corpus:NAME (comes with regard), hub:NAME[:CONFIG] or a folder (through the `datasets`
    library).
    """

    alignments: str | None = Field(None, description="file of gold word alignments of the test pairs")
    alignment_format: Literal["auto", "pharaoh", "talp", "naacl"] = Field(
        "auto",
        description="of that file: pharaoh (0-0 1?2 a line, alone or after source ||| target |||), talp (the same, "
        "counted from 1: 1-1 2p3), naacl (a link a line); auto is pharaoh or naacl",
    )
    source: Column | None = column("source", "first column")
    target: Column | None = column("target", "second column")
    tokenizer: TokenizerSettings = Field(
        TokenizerSettings.model_validate({}), description="how text is cut into tokens"
    )
    max_length: int = Field(256, ge=2, description="maximum tokens of each side, including the end token")
    overlong: Literal["skip", "cut"] = Field("skip", description="what happens to pairs with a longer side")
    valid_share: float = held_out(0.02, "training sources")

    @property
    def columns(self) -> Columns:
        return Columns({"source": self.source, "target": self.target}, self.header)

    def problems(self) -> Iterator[tuple[str, str]]:
        return self.problems_of_columns(source=self.source, target=self.target)
