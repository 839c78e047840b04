"""What tests over all methods of looking share: which of them ask the whole model, and what each says that cannot."""

from regard.look.methods import METHODS
from regard.look.supported import ATTENTION

WHOLE_MODEL = tuple(method for method in METHODS if method not in ATTENTION)

#: What a model with recurrent cells answers.
REFUSED = {"rollout": "takes a Transformer", "attnlrp": r"this model computes something else \(recurrent cells"}
