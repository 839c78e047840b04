"""Classifiers of pictures by a Vision Transformer."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.api import Run
from regard.encoders.class_token import by_class_token
from regard.encoders.image import VisionTransformer
from regard.encoders.image_input import PictureEncoder
from regard.exporters.agreement import difference, tied
from regard.exporters.base import Compared, RefusalError, misfits
from regard.exporters.hf.plan import FolderPlan, write_json
from regard.models.classifier import Classifier
from regard.pretrained import vit
from regard.pretrained.renamed import Renamed, to_theirs

BILINEAR = 2  # Pillow's number


def plan(run: Run) -> "VitPlan":
    model, s = run.model, run.recipe.model  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(model, Classifier)
    if not isinstance(model.encoder, PictureEncoder) or not isinstance(model.encoder.body, VisionTransformer):
        raise RefusalError("of classifiers of pictures, transformers has our Vision Transformer only (model.kind=vit)")
    wrong = misfits(s, stem=[[], ()])
    if not by_class_token(model.encoder, model.pooling):
        wrong.append("a pooling of regions (only the class token, model.pooling=summary)")
    if run.job.output.labels.several:  # pyright: ignore[reportAttributeAccessIssue]
        wrong.append("several labels a picture")
    if wrong:
        raise RefusalError(f"ViT does not have {', '.join(wrong)}")
    return VitPlan(run, model.encoder, model.encoder.body)


class VitPlan(FolderPlan):
    auto, tags = "AutoModelForImageClassification", ("image-classification",)

    def __init__(self, run: Run, encoder: PictureEncoder, body: VisionTransformer) -> None:
        super().__init__(run)
        self.encoder, self.body = encoder, body
        self.explain_loading("processor", "AutoImageProcessor")
        self.notes = [] if run.recipe.data.fit == "squash" else [
            f"data.fit={run.recipe.data.fit}: other programs squash a picture into the model's size"
        ]  # fmt: skip

    def config(self) -> dict[str, Any]:
        s, body = self.run.recipe.model, self.body  # pyright: ignore[reportAttributeAccessIssue]
        block: Any = body.layers[0]
        names = self.run.job.output.labels.names  # pyright: ignore[reportAttributeAccessIssue]
        return {
            "architectures": ["ViTForImageClassification"], "model_type": "vit", "image_size": list(body.size),
            "patch_size": s.patch, "num_channels": body.channels, "hidden_size": s.width,
            "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
            "intermediate_size": block.feed_forward.narrow.in_features, "hidden_act": "gelu", "qkv_bias": True,
            "layer_norm_eps": block.attention_norm.eps, "hidden_dropout_prob": s.dropout,
            "id2label": {str(number): name for number, name in enumerate(names)},
            "label2id": {name: number for number, name in enumerate(names)},
        }  # fmt: skip

    def tensors(self) -> Mapping[str, Tensor]:
        return to_theirs(self.maps(), self.state())

    def maps(self) -> list[Renamed]:
        return vit.table(len(self.body.layers))

    def write_more(self, folder: Path) -> None:
        rows, columns = self.body.size
        mean, deviation = (x.flatten().tolist() for x in (self.encoder.mean, self.encoder.deviation))
        write_json(
            folder / "preprocessor_config.json",
            {
                "image_processor_type": "ViTImageProcessor", "do_resize": True, "resample": BILINEAR,
                "size": {"height": rows, "width": columns}, "do_rescale": True, "rescale_factor": 1 / 255,
                "do_normalize": True, "image_mean": mean, "image_std": deviation,
            },
        )  # fmt: skip

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Compared]:
        import transformers

        theirs, ours = self.load(folder), self.run.model
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        names, input = self.run.job.output.labels.names, self.run.job.input  # pyright: ignore[reportAttributeAccessIssue]
        for one in inputs:
            pixels = input.read(one).pixels
            seen = processor(pixels.numpy(), return_tensors="pt", input_data_format="channels_first")
            with torch.inference_mode():
                expected = ours.logits(input.collate([input.read(one)]))[0]  # pyright: ignore[reportCallIssue]
                found = theirs(**seen).logits[0]
            said, told = (names[int(logits.argmax())] for logits in (expected, found))
            apart = difference(expected, found, "logits")
            yield Compared(input.name(one), *apart, said, told, tied(self.run, one, said, told))
