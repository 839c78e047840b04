"""Attribution methods, each an equation on arrays; callers compute the arrays from the model.

Attention weights show what was mixed, not what mattered. Other methods measure more: input shares over all layers
(rollout), the size of transformed values (norm), sensitivity of the output (gradients), masking (erasure).
"""

from typing import Literal

#: Values of `by` for each explanation of `look/explain.py`.
By = Literal[
    "heads", "positions", "states", "paths", "keys", "queries", "integrated-gradients", "attnlrp", "input-gradient"
]

#: Methods that explain an output, so they support a contrast; the others show where a model looks.
ABOUT_OUTPUT = ("gradient", "input-gradient", "integrated-gradients", "attnlrp", "leave-one-out")
#: Methods that show the positive part, which supports the output.
SPEAKING_FOR = ("gradient", "integrated-gradients", "attnlrp", "leave-one-out")

METHODS: dict[str, str] = {
    "raw": "attention weights as the model computed them",
    "rollout": "attention followed back through all layers to the input tokens (Abnar and Zuidema 2020)",
    "norm": "weight times the norm of the transformed value, rows scaled to 1 (Kobayashi et al. 2020)",
    "gradient": "weight times its gradient, positive part, rows scaled to 1 (Chefer et al. 2021)",
    "input-gradient": "size of input times gradient, rows scaled to 1 (Denil et al. 2014)",
    "integrated-gradients": "gradient along the path from zeros to the input, positive part, rows scaled to 1 "
    "(Sundararajan et al. 2017)",
    "attnlrp": "relevance by a rule for each operation of a Transformer, positive part, rows scaled to 1 "
    "(Achtibat et al. 2024)",
    "leave-one-out": "loss of log-probability without the token, positive part, rows scaled to 1 (Li et al. 2016)",
}
