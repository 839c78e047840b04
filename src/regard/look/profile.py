"""Head profile over several inputs: the role of each head, and the loss when it is masked.

    loss without head h = (Σ log p(y) − Σ log p(y; without h)) / |Σ log p(y)|

0.05: −log p of the correct outputs grows by 5%. A head without a named role may be important, and one with a clear role
may be redundant.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from torch import nn

from regard.attention.masks import HeadMask
from regard.errors import CallError
from regard.look.attribution import attentions
from regard.look.case import ExplainTarget, step_scores
from regard.look.history import History
from regard.look.methods.positional import kept_patterns
from regard.look.methods.roles import CLEAR, POSITIONAL, above_chance, role_shares
from regard.look.records import KINDS, ORDER, AttentionRecord, Kind
from regard.look.value_table import ValueTable

WITHOUT = "loss without it"
Place = tuple[Kind, int]


def head_profile(cases: Sequence[ExplainTarget]) -> ValueTable:
    """Return the profile over cases, each an input with its correct output."""
    if not cases:
        raise CallError("no validation input has an attention record, so there is no profile")
    names: dict[Place, tuple[str, int]] = {}
    mass: dict[Place, dict[str, np.ndarray | float]] = defaultdict(lambda: defaultdict(float))
    chance: dict[Place, dict[str, np.ndarray | float]] = defaultdict(lambda: defaultdict(float))
    rows: dict[Place, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for case in cases:
        seen = {one.name: one for one in attentions(case)}
        found = [(one, *role) for one in seen.values() for role in role_shares(case.axes, one)]
        found += [(one, POSITIONAL, own, usual, count) for one, own, usual, count in kept_patterns(case, seen)]
        for one in seen.values():
            names.setdefault((one.kind, one.layer), (one.name, len(one.weights)))
        for one, role, own, usual, count in found:
            place = one.kind, one.layer
            mass[place][role] += own
            chance[place][role] += np.broadcast_to(usual, own.shape)
            rows[place][role] += count
    if not names:
        raise CallError("no attention of this model has named rows and columns, so there is no profile")
    ordered = sorted(names, key=lambda place: (ORDER.index(place[0]), place[1]))
    roles = list(dict.fromkeys(role for place in ordered for role in rows[place] if rows[place][role]))
    values, words, labels = [], [], []
    for place in ordered:
        lost = _ablation_losses(cases, *names[place])
        for head in range(names[place][1]):
            above, written = [], []
            for role in roles:
                count = rows[place].get(role, 0)
                if not count:
                    above.append(0.0)
                    written.append("")
                    continue
                own, usual = (float(np.asarray(sums[place][role])[head]) / count for sums in (mass, chance))
                above.append(own - usual)
                written.append(f"{own:.2f} ({usual:.2f})")
            clear = roles[int(np.argmax(above))] if above and max(above) >= CLEAR else ""
            labels.append(f"{place[0]}.{place[1]}.{head} {clear}".strip())
            values.append([*above, lost[head]])
            words.append([*written, f"{lost[head]:+.3f}"])
    return ValueTable(
        np.array(values), labels, [*roles, WITHOUT], f"Roles of the heads, over {len(cases)} inputs", words=words,
        about="Share of a head's weight on the columns of the role, with chance in brackets; the color is the "
        f"difference. {POSITIONAL}: the share that stays when contents are shuffled, in brackets that of a head that "
        f"follows contents. {WITHOUT}: relative growth of −log p of the correct output, 0.05 is 5%.",
    )  # fmt: skip


def role_history(histories: Sequence[History]) -> ValueTable:
    """Return the role scores of heads during training, over the stored validation inputs.

    Rows are heads with their final role; columns are steps."""
    steps = histories[0].steps
    above = [above_chance([history.records[place] for history in histories]) for place in range(len(steps))]
    rows, values, words = [], [], []
    for head, roles in above[-1].items():
        role = max(roles, key=lambda name: roles[name])
        own = [table.get(head, {}).get(role, 0.0) for table in above]
        begun = next((step for step, value in zip(steps, own, strict=True) if value >= CLEAR), None)
        name = f"{role}, from step {begun:,}" if roles[role] >= CLEAR and begun is not None else f"no role ({role})"
        rows.append(f"{head} {name}")
        values.append(own)
        words.append([f"{value:+.2f}" for value in own])
    return ValueTable(
        np.array(values), rows, [f"{step:,}" for step in steps],
        f"Roles of the heads during training, over {len(histories)} inputs", words=words,
        about="Share of a head's weight on the columns of its role, minus chance, at every validation; a role "
        f"counts from {CLEAR} on. {POSITIONAL}: the share of its pattern that stays when contents are shuffled, minus "
        "that of a head that follows contents. Induction: Olsson et al. 2022.",
    )  # fmt: skip


def _ablation_losses(cases: Sequence[ExplainTarget], name: str, heads: int) -> list[float]:
    """Return the loss without each head; 0 for heads that cannot be masked separately."""
    module = dict(cases[0].model.named_modules()).get(name)
    whole = sum(sum(step_scores(case)) for case in cases)
    if module is None or not whole:
        return [0.0] * heads
    found = []
    for head in range(heads):
        with HeadMask({module: [head]}):
            found.append((whole - sum(sum(step_scores(case)) for case in cases)) / abs(whole))
    return found


# Names of heads: `cross.2.3` is head 3 of layer 2 of the attention over the source.
#
# A record of the same model maps them to modules: it lists the kind, layer and module name of each attention.


def heads_called(names: Sequence[str], model: nn.Module, record: AttentionRecord) -> dict[nn.Module, list[int]]:
    """Return the named heads by attention module, for `regard.attention.HeadMask`."""
    modules = dict(model.named_modules())
    there = {(one.kind, one.layer): one for one in record.attentions if one.name in modules}
    found: dict[nn.Module, list[int]] = {}
    for name in names:
        kind, layer, head = _parts(name)
        one = next((one for place, one in there.items() if place == (kind, layer)), None)
        if one is None:
            known = ", ".join(f"{kind}.{layer}" for kind, layer in there) or "none"
            raise CallError(f"without={name!r}: no such layer; the attentions of this model are: {known}")
        if head >= len(one.weights):
            raise CallError(f"without={name!r}: the heads of {kind}.{layer} are 0 to {len(one.weights) - 1}")
        found.setdefault(modules[one.name], []).append(head)
    return found


def _parts(name: str) -> tuple[str, int, int]:
    parts = name.split(".")
    if len(parts) != 3 or parts[0] not in KINDS or not all(part.isdecimal() and len(part) < 6 for part in parts[1:]):
        raise CallError(
            f"without={name[:50]!r} is not a head: write KIND.LAYER.HEAD, such as cross.0.3; KIND is one of "
            f"{', '.join(KINDS)}"
        )
    return parts[0], int(parts[1]), int(parts[2])
