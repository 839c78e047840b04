"""An output of one's own: yes or no, by one number. One file, and it works with any input.

p(yes | x) = σ(w · c + b),   c = Σ_i a_i h_i
"""

import torch
import torch.nn.functional as F
from torch import nn

from regard.data.vocabulary import SpecialIds
from regard.errors import CallError
from regard.layers.loss import OutputLoss
from regard.look.axis import axis
from regard.models.build import build_pooling
from regard.tasks.base import Output, OutputRef
from regard.tasks.result import Candidate, Prediction, Scores

ANSWERS = ["no", "yes"]
UNKNOWN = -1


class Answers:
    """The two ids; they are known before any data is."""

    size, specials = len(ANSWERS), SpecialIds(None, None, None, None)

    def encode_batch(self, texts):
        return [[ANSWERS.index(text)] for text in texts]

    def to_json(self):
        return "{}"


class YesNo(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, width = encoder, encoder.memory_width
        self.pooling, self.output = build_pooling("attention", "additive", width), nn.Linear(width, 1)

    def logits(self, source):
        return self.output(self.pooling(self.encoder(source))).squeeze(1)

    def forward(self, batch):
        known = batch.target != UNKNOWN
        logits, target = self.logits(batch.source)[known], batch.target[known]
        total = F.binary_cross_entropy_with_logits(logits, target.float(), reduction="sum")
        return OutputLoss(total, len(target), ((logits > 0) == (target > 0)).sum())


class YesNoOutput(Output):
    vocabulary = Answers()

    def learn(self, texts):
        return self.vocabulary

    def collate(self, targets):
        return torch.tensor([int(target[0]) for target in targets] or [UNKNOWN])

    def build(self):
        return YesNo(self.input.encoder())

    @torch.inference_mode()
    def predict(self, model, inputs):
        logits = model.logits(self.input.collate([self.input.read(one) for one in inputs]))
        return [self._prediction(one, logit) for one, logit in zip(inputs, logits, strict=True)]

    def _prediction(self, one, logit):
        log_p = F.logsigmoid(logit.abs()).item()
        return Prediction(self.input.name(one), [Candidate(ANSWERS[int(logit > 0)], log_p)])

    def tell(self, model, one, options):
        text = self.predict(model, [one])[0].text if options.output is None else options.output
        if text not in ANSWERS:
            raise CallError(f"output={text!r}: this model says {' or '.join(ANSWERS)}")
        return [OutputRef(ANSWERS.index(text), text)]

    def case(self, model, one, told):
        item, sign = self.item_of(one), 1 if told.target else -1
        axes = {"target": axis([told.text]), "source": self.input.axis(item)}
        return self.asked(model, item, lambda source: F.logsigmoid(sign * model.logits(source))[:, None], axes)

    def test_scores(self, model, examples, alignments):
        found = self.predict(model, [example.input for example in examples])
        right = [one.text in example.texts for one, example in zip(found, examples, strict=True)]
        return Scores({"accuracy": 100 * sum(right) / len(right)}, percent=["accuracy"])
