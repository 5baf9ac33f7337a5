"""Models as files of other runtimes: ONNX and GGUF."""
