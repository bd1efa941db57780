"""A trained model as files in open formats: safetensors or ONNX, with its classes, its preprocessing and a card.

What is needed to use an ONNX model (`askless.models.onnx_run`) imports no torch.
"""
