"""The tasks: one file each, with its data, model, loss, scores and how a prediction is shown.

Nothing is imported here but names, so that the command line can list tasks without importing torch.
"""

TASKS = {
    "goals": "from an utterance to its goal, slots and confidence",
    "lm": "from a beginning to how it goes on",
    "translation": "from a sentence to the same in another language",
    "summarization": "from a text to its summary",
    "retrieval": "from a question to the documents that answer it",
    "captioning": "from an image to a sentence about it",
    "classification": "from a text to its class",
    "ner": "names in a text: what kind, and where",
    "pos": "the part of speech of every word",
    "qa": "the piece of a text that answers a question",
}
