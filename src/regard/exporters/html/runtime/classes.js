// The classes of modules, under the names that they have in Python.
import { Attention, Gate, MultiHead } from "./attention.js";
import { Conv2d, ConvNet, Convolution, GroupNorm, PictureEncoder, PositionAttention, VisionTransformer } from "./images.js";
import { Embedding, FeedForward, Identity, LayerNorm, Linear, RMSNorm, Sequential } from "./layers.js";
import { Attended, AttentionPooling, Captioner, Classifier, LanguageModel, Pooling, Seq2Seq } from "./models.js";
import { Alibi, Learned, RelativeBias, Rotary, Sinusoidal, SinusoidalGrid } from "./positions.js";
import { GRU, LSTM, RecurrentDecoder, RecurrentEncoder } from "./recurrent.js";
import { Additive, Bilinear, Concat, Cosine, Dot, ScaledDot, Trilinear } from "./scores.js";
import { Bert, Block, TransformerDecoder, TransformerEncoder } from "./transformer.js";

export const CLASSES = {
  Additive, Alibi, Attended, Attention, AttentionPooling, Bert, Bilinear, Block, Captioner, Classifier, Concat, Conv2d,
  ConvNet, Convolution, Cosine, Dot, Embedding, FeedForward, Gate, GroupNorm, GRU, Identity, LanguageModel,
  LayerNorm, Learned, Linear, LSTM, MultiHead, PictureEncoder, Pooling, PositionAttention, RecurrentDecoder,
  RecurrentEncoder, RelativeBias, RMSNorm, Rotary, ScaledDot, Seq2Seq, Sequential, Sinusoidal,
  SinusoidalGrid, TransformerDecoder, TransformerEncoder, Trilinear, VisionTransformer,
};
