"""Cache of recent attention records, so that a page can fetch tables one by one from one computation."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from regard.look import AttentionRecord

MOST_NUMBERS = 16_000_000  # 64 MB of weights
MOST_RECORDS = 32


class Recent:
    """Cache of one model. Lanes use it in turn; a query that two lanes run at the same time is computed twice."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, AttentionRecord] = OrderedDict()
        self._lock = Lock()

    def get(self, question: Hashable, ask: Callable[[], AttentionRecord]) -> AttentionRecord:
        with self._lock:
            found = self._kept.get(question)
        record = ask() if found is None else found  # without the lock: the computation may have to wait for its turn
        with self._lock:
            self._kept[question] = record
            self._kept.move_to_end(question)
            while len(self._kept) > 1 and (len(self._kept) > MOST_RECORDS or self._numbers() > MOST_NUMBERS):
                self._kept.popitem(last=False)
        return record

    def _numbers(self) -> int:
        records = (one for record in self._kept.values() for one in (record, *record.beams))
        return sum(attention.weights.size for record in records for attention in record.attentions)
