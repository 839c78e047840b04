"""Export to folders that `transformers` loads by AutoModel and AutoTokenizer, without code of regard."""
