import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def tiny_vit(tmp_path):
    """A folder with a vision transformer of Hugging Face, of random weights, and its image processor: there is no hub in the
    tests."""
    from askless.nets.optional import torchvision

    torchvision()  # its guard
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8))
    model.save_pretrained(tmp_path / "vit")
    colours = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}
    ViTImageProcessor(size={"height": 32, "width": 32}, **colours).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"
