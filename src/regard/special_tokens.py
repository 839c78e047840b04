"""The four special tokens at the start of every vocabulary. They are not text; a token's id is its position here.

        <pad> fills up a batch    <unk> unknown token    <s> first input of a decoder    </s> end of a text

A tokenizer of another tool may have other special tokens (`data.special_ids`).
"""

SPECIAL_TOKENS = ["<pad>", "<unk>", "<s>", "</s>"]
PAD, UNK, START, END = range(len(SPECIAL_TOKENS))
