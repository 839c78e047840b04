"""Export a run as a folder for `transformers`, in the layout that supports its settings.

LanguageModel                 GPT-2, Llama, Arcee
Classifier, Tagger, Embedder  BERT (norms after each part), ESM (before)
PairReader                    BERT
Classifier of pictures        ViT
Seq2Seq of texts              Marian (norms after each part), Pegasus (before)
"""

from typing import ClassVar

from regard.encoders.image import PictureEncoder
from regard.exporters.base import ExportPlan, ExportRequest, Format, RefusalError
from regard.exporters.hf import encoders, language, translators
from regard.models.classifier import Classifier, Tagger
from regard.models.embedder import Embedder
from regard.models.language_model import LanguageModel
from regard.models.reader import PairReader
from regard.models.seq2seq import Seq2Seq


class HuggingFace(Format):
    name: ClassVar[str] = "hf"
    runs: ClassVar[tuple[str, ...]] = ("transformers",)

    def plan(self, request: ExportRequest) -> ExportPlan:
        model = request.run.model
        if isinstance(model, LanguageModel):
            return language.plan(request.run)
        if isinstance(model, Seq2Seq):
            return translators.plan(request.run)
        if isinstance(model, Classifier) and isinstance(model.encoder, PictureEncoder):
            return encoders.plan_vit(request.run)
        if isinstance(model, Classifier | Embedder | PairReader | Tagger):
            return encoders.plan_encoder(request.run)
        raise RefusalError(f"transformers has no model like {type(model).__name__}")
