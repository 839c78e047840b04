"""Attention of a `transformers` model in a local folder: `regard look hf:FOLDER "text"`.

For folders that `regard import` does not support. The model runs in the classes of `transformers` and is watched
(`watch.py`). An encoder-only or decoder-only model reads the text. An encoder-decoder also generates an output, or is
forced to a given one. Nothing is downloaded, and no code from the folder is run.
"""

from pathlib import Path
from typing import Any

import torch

from regard.errors import CallError, pip_install
from regard.look.records import AttentionRecord
from regard.look.watch import watching

PREFIX = "hf:"
LONGEST = 64  # generated tokens


def look_at_folder(folder: Path, text: str, output: str | None = None) -> AttentionRecord:
    """Return the attention record of one text. `output` is the forced output of an encoder-decoder."""
    model, tokenizer = _loaded(folder)
    read = tokenizer(text, return_tensors="pt")
    if not read["input_ids"].numel():
        raise CallError(f"{text!r} has no token: there is nothing to look at")
    tokens = tokenizer.convert_ids_to_tokens(read["input_ids"][0])
    writes = bool(model.config.is_encoder_decoder)
    if output is not None and not writes:
        raise CallError("--target: this model writes nothing over a source; give it the whole text to read")
    with torch.inference_mode():
        if writes:
            written = _written(model, tokenizer, read, output)
            with watching(model) as seen:
                model(**read, decoder_input_ids=written)
            told = tokenizer.convert_ids_to_tokens(written[0])
            said = tokenizer.decode(written[0], skip_special_tokens=True)
            record = seen.record(rows=told, columns=tokens, input=text, output=said)
        else:
            with watching(model) as seen:
                model(**{name: read[name] for name in ("input_ids", "attention_mask") if name in read})
            record = seen.record(rows=tokens, input=text)
    return record


def _written(model: Any, tokenizer: Any, read: Any, output: str | None) -> torch.Tensor:
    """Return the decoder input: start token, then the generated or given output."""
    if output is None:
        return model.generate(**read, max_new_tokens=LONGEST, num_beams=1, do_sample=False)[:, :-1]
    ids = tokenizer(text_target=output, return_tensors="pt")["input_ids"]
    first = model.generation_config.decoder_start_token_id
    return torch.cat([torch.full_like(ids[:, :1], first), ids[:, :-1]], dim=1)


def _loaded(folder: Path) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError:
        raise CallError(f"hf:FOLDER needs transformers: {pip_install('transformers')}") from None
    if not (folder / "config.json").is_file():
        raise CallError(f"hf:{folder}: there is no config.json: it is no folder of a model of transformers")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModel
        model = kind.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise CallError(f"hf:{folder}: transformers cannot load it: {str(error).splitlines()[0]}") from None
    return model.eval(), tokenizer
