"""Embedding: models, their sources, and the process that runs one.

The rules (families, recipes, batches) are pure. A model runs in a process of its own (`worker`), which
alone imports numpy, onnxruntime and tokenizers; or at a server that speaks OpenAI's protocol. All are
an :class:`~tabane.search.embedding.embedder.Embedder`.
"""
