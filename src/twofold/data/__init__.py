"""Data: examples, readers of files, tokenizers, and embedded sets. Knows nothing of models or tasks."""
