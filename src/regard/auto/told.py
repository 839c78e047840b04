"""What the user said of data before it was looked at: columns (data.*), and the job that it is for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from regard.auto.columns import Column, Kind
from regard.auto.tables import Table

#: Settings that name a column, and what it then holds.
_ROLES: dict[str, Kind] = {
    "source": "text", "target": "text", "text": "text", "words": "text", "caption": "text",
    "first": "text", "second": "text", "label": "label",
    "image": "picture", "path": "recording", "time": "time", "id": "id",
}  # fmt: skip
_SIDES = {"source", "target"}  # of which the other one is still sought, if only one was named


@dataclass(frozen=True)
class Told:
    """`data`: settings of that section. `said`: what may come out, where a job was named; empty if none was."""

    data: Mapping[str, Any] = field(default_factory=dict)
    said: frozenset[str] = frozenset()

    @property
    def may_be_plain(self) -> bool:
        """Whether nothing was said that texts to be continued do not have: columns, labels."""
        return self.said <= {"text"} and not any(role in self.data for role in _ROLES)

    def is_column(self, role: str, column: Column) -> bool:
        return role in self.data and str(self.data[role]) == str(column.key)

    def read(self, table: Table) -> Table:
        """The same table, whose columns hold what was said of them. Of each kind that was named, others are unused."""
        roles = [role for role in _ROLES if any(self.is_column(role, column) for column in table.columns)]
        whole = [role for role in roles if role not in _SIDES or set(roles) >= _SIDES]
        taken: set[Kind] = {_ROLES[role] for role in whole}
        if "label" in taken and any(column.kind in ("text", "picture", "recording") for column in table.columns):
            taken.add("number")  # which might be classes, too
        return replace(table, columns=self._for_job([self._column(column, roles, taken) for column in table.columns]))

    def _column(self, column: Column, roles: list[str], taken: set[Kind]) -> Column:
        role = next((role for role in roles if self.is_column(role, column)), None)
        if "separator" in self.data:
            column = column._replace(separator=str(self.data["separator"] or ""))
        if role is not None:
            return column._replace(kind=_ROLES[role])
        return column._replace(kind="unused") if column.kind in taken else column

    def _for_job(self, columns: list[Column]) -> list[Column]:
        """Texts that repeat are texts, if texts are to be written, and classes, if there are no others."""
        kinds = [column.kind for column in columns]
        listed = "picture" in kinds or "recording" in kinds
        if self.said == {"text"} and (listed or kinds.count("text") < 2):
            return [column._replace(kind="text") if column.kind == "label" else column for column in columns]
        if self.said == {"label"} and "label" not in kinds and kinds.count("text") > (not listed):
            fewest = min((column for column in columns if column.kind == "text"), key=lambda one: one.distinct)
            return [one._replace(kind="label" if one is fewest else one.kind) for one in columns]
        return columns
