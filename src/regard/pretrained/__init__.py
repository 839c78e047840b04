"""Pretrained models: import their files as runs, and start new runs from them.

found = regard.pretrained.encoder("runs/minilm")
model = build_encoder(found.settings, found.tokenizer.size)
model.load_state_dict(found.weights)
"""

from regard.pretrained.run_encoder import PretrainedEncoder, encoder, keep_settings, kept_settings

__all__ = ["PretrainedEncoder", "encoder", "keep_settings", "kept_settings"]
