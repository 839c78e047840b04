"""Folders that `transformers` loads by AutoModel and AutoTokenizer, without any code of ours."""
