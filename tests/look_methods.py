"""What tests over all methods of looking share: which of them ask the whole model, and what each says that cannot."""

from regard.look import AttentionRecord
from regard.look.explain import ATTENTION
from regard.look.methods import METHODS

WHOLE_MODEL = tuple(method for method in METHODS if method not in ATTENTION)

#: What methods tell of their own tables; the rest of the evidence is what the model was asked.
OWN_FIGURES = {
    "integrated-gradients": {"more than for an input of zeros", "of it at the input", "share of it that is lost"},
    "attnlrp": {
        "sum of the logits", "of them at the input", "of them at what was written", "of them lost",
        "of them at biases and positions", "of them at the constants of softmax",
    },
}  # fmt: skip


def asked_of_the_model(record: AttentionRecord, method: str) -> set[str]:
    """The names of its evidence, but for what the method tells of itself, which has to be there."""
    names, own = {figure.name for figure in record.evidence}, OWN_FIGURES.get(method, set())
    assert bool(names & own) == bool(own)
    return names - own


#: What a model with recurrent cells answers.
REFUSED = {"rollout": "needs a Transformer", "attnlrp": r"this model has others \(recurrent cells"}
