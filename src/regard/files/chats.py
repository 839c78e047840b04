"""JSON documents, one per object, as text for a language model; a chat is written as a dialogue.

{"text": "..."}                                                               a document, as it is
{"messages": [{"role": "user", "content": "Good morrow."}, ...]}              as services take a chat
{"conversations": [{"from": "human", "value": "Good morrow."}, ...]}          as ShareGPT writes it
{"instruction": "Greet them.", "input": "Romeo", "output": "Good morrow."}    as Alpaca writes it

User: Good morrow.
Assistant: Good morrow, cousin.
"""

from collections.abc import Iterable, Mapping
from typing import Any

REPLY = "Assistant:"  # the prompt that a model continues
ENDS = ["\nUser:"]  # ends the model's turn
_NAMES = {"human": "user", "prompter": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant"}
_TURNS = (("messages", "role", "content"), ("conversations", "from", "value"), ("conversation", "from", "value"))


def as_play(turns: Iterable[tuple[str, str]]) -> str:
    """Return the turns (speaker, text) as a dialogue."""
    return "".join(f"{_NAMES.get(role.lower(), role).capitalize()}: {text}\n" for role, text in turns)


def is_chat(record: Mapping[str, Any]) -> bool:
    return any(isinstance(record.get(name), list) for name, *_ in _TURNS) or {"instruction", "output"} <= record.keys()


def document(record: Mapping[str, Any]) -> str:
    """Return the text of a document or a chat; empty if it has none."""
    for name, who, what in _TURNS:
        if isinstance(turns := record.get(name), list):
            spoken = [(str(turn.get(who, "")), _said(turn.get(what))) for turn in turns if isinstance(turn, Mapping)]
            return as_play((role, text) for role, text in spoken if role and text)
    if {"instruction", "output"} <= record.keys():
        asked = "\n".join(filter(None, (_said(record["instruction"]), _said(record.get("input")))))
        return as_play([("user", asked), ("assistant", _said(record["output"]))])
    return _said(record.get("text"))


def _said(content: Any) -> str:
    """Return a text, or the texts among the parts of a message."""
    if isinstance(content, list):
        return "".join(_said(part.get("text")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
