"""Attention of a drawing model: the words from which each region of the picture was drawn.

The picture's tokens are forced through the decoder, so recording does not change drawing. Each layer and head has two
tables:

    cross     how much each region, when it was drawn, looked at each token of the sentence; shown transposed, a row a
              token, so that a word can be laid over the picture. Columns sum to the region's weight on the sentence
    decoder   a row a region: how much it looked at the regions drawn before it
"""

import numpy as np
import torch

from regard.inputs.text.input import TextInput, TextItem
from regard.look.case import Case
from regard.models.drawer import Drawer
from regard.outputs.batched import case_of
from regard.outputs.picture.codes import Codes, axes_of, words_and_regions
from regard.outputs.picture.drawing import painter


def drawing_case(model: Drawer, input: TextInput, item: TextItem, codes: Codes) -> Case:
    """Return the case of a sentence and the picture of these codes. An occluded word is removed from the input."""
    (picture,) = painter(model)(codes[None], None)
    parts = [place + 1 for place in input.parts(item)]
    return case_of(
        input, model, model.writer.decoder, item, model.scores, axes_of(input, item, picture, model.tokenizer.grid),
        target=torch.from_numpy(codes[None]), parts=parts,
        gather=lambda found: np.concatenate(found).sum(-1)[:, parts],
        place=words_and_regions(model.text_length), turned=True, offset=model.text_length,
    )  # fmt: skip
