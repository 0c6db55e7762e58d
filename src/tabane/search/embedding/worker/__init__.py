"""The code of the embedding process, which alone imports numpy, onnxruntime, tokenizers and onnx."""
