"""The four tokens that every vocabulary of ours begins with. They are no text; a token's id is its place here.

    <pad> fills up a batch    <unk> is what the vocabulary lacks    <s> a decoder reads first    </s> ends a text

A tokenizer of another tool may have others (`data.special_ids`).
"""

SPECIAL_TOKENS = ["<pad>", "<unk>", "<s>", "</s>"]
PAD, UNK, START, END = range(len(SPECIAL_TOKENS))
