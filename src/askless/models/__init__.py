"""A trained model as a folder in open formats (safetensors or ONNX, with its classes, its preprocessing and a card), and
`load` to use it. Using an ONNX model imports no torch."""

from askless.models.classifier import Classifier, load

__all__ = ["Classifier", "load"]
