"""What the user specified about data: columns (data.*) and the job."""

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
_SIDES = {"source", "target"}  # if only one is named, the other is still searched


@dataclass(frozen=True)
class Told:
    """What the user specified. `data`: settings of that section. `said`: possible outputs of a requested job; empty
    without one."""

    data: Mapping[str, Any] = field(default_factory=dict)
    said: frozenset[str] = frozenset()

    @property
    def may_be_plain(self) -> bool:
        """Return whether the user specified nothing that excludes texts to be continued: no columns, no labels."""
        return self.said <= {"text"} and not any(role in self.data for role in _ROLES)

    def is_column(self, role: str, column: Column) -> bool:
        return role in self.data and str(self.data[role]) == str(column.key)

    def read(self, table: Table) -> Table:
        """Return the table with the specified columns. Other columns of a specified kind are unused."""
        roles = [role for role in _ROLES if any(self.is_column(role, column) for column in table.columns)]
        whole = [role for role in roles if role not in _SIDES or set(roles) >= _SIDES]
        taken: set[Kind] = {_ROLES[role] for role in whole}
        if "label" in taken and any(column.kind in ("text", "picture", "recording") for column in table.columns):
            taken.add("number")  # of a kind that could also be classes
        return replace(table, columns=self._for_job([self._column(column, roles, taken) for column in table.columns]))

    def _column(self, column: Column, roles: list[str], taken: set[Kind]) -> Column:
        role = next((role for role in roles if self.is_column(role, column)), None)
        if "separator" in self.data:
            column = column._replace(separator=str(self.data["separator"] or ""))
        if role is not None:
            return column._replace(kind=_ROLES[role])
        return column._replace(kind="unused") if column.kind in taken else column

    def _for_job(self, columns: list[Column]) -> list[Column]:
        """Treat repeated texts as texts if the job generates texts, and as classes if there are no others."""
        kinds = [column.kind for column in columns]
        listed = "picture" in kinds or "recording" in kinds
        if self.said == {"text"} and (listed or kinds.count("text") < 2):
            return [column._replace(kind="text") if column.kind == "label" else column for column in columns]
        if self.said == {"label"} and "label" not in kinds and kinds.count("text") > (not listed):
            fewest = min((column for column in columns if column.kind == "text"), key=lambda one: one.distinct)
            return [one._replace(kind="label" if one is fewest else one.kind) for one in columns]
        return columns
