"""What runs in the embedding process, and alone imports numpy, onnxruntime, tokenizers and onnx."""
