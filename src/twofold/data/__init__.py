"""Data: examples, readers of files, tokenizers, and sets of our own. Knows nothing of models or tasks."""
