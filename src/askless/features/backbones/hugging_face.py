"""Any `AutoModel` of Hugging Face's transformers as a backbone, for images or for texts (the extra `hf`).

Models are read from a folder or by their name on the hub; code that comes with them is never run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from askless.base import digest
from askless.base.errors import InputError, ModelError, OptionError, first_line
from askless.base.machine import required
from askless.features.backbones.backbone import Backbone, TextBackbone, checked, seeing
from askless.features.backbones.images import normalising
from askless.nets.hub import can_ask_hub
from askless.nets.optional import torchvision

Pooling = Literal["auto", "pooler", "cls", "mean"]
NO_POOLER = "pooling='pooler': this model has no trained pooler; use pooling='mean' or 'cls'"
BATCH = 32  # texts that are embedded together
LONGEST = 512  # tokens of a text that are looked at, where the model does not say


def hf_images(place: str, size: int | None = None, pooling: str = "auto", device: str = "cpu") -> Backbone:
    """Images by a model in a folder or on the hub; size, mean and deviation are those of its image processor."""
    transformers = package()
    net, pooling, untrained = load_model(transformers, place, pooling, "get_image_features")
    processor = image_processor(transformers, place)
    own, mean, std = image_config(processor, place)
    eye = normalising(ImageFeatures(net, pooling, untrained), size or own, mean, std)
    return seeing(eye, f"hf/{place} {digest.of_tensors(trained_part(net, untrained))[:16]} {pooling}", device)


def hf_texts(place: str, pooling: str = "auto", length: int | None = None) -> TextBackbone:
    """Texts by a model in a folder or on the hub, with its own tokenizer. Texts are cut after `length` tokens, None for as
    many as the model takes."""
    transformers = package()
    net, pooling, untrained = load_model(transformers, place, pooling, "get_text_features")
    tokenizer = loaded(transformers.AutoTokenizer, place, "a tokenizer (tokenizer.json or its vocabulary)")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    run = net.get_text_features if hasattr(net, "get_text_features") else text_part(net)
    length = length or longest(tokenizer, net.config)

    @torch.inference_mode()
    def embed(texts: Sequence[str]) -> np.ndarray:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("expected a list of texts (str), got something else; use [str(text) for text in texts]")
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # texts of like length need little padding
        parts = []
        for start in range(0, max(1, len(texts)), BATCH):
            part = [texts[i] for i in order[start : start + BATCH]] or [""]  # which says how wide no rows are
            tokens = tokenizer(part, padding=True, truncation=True, max_length=length, return_tensors="pt")
            ids, mask = tokens["input_ids"], tokens["attention_mask"]
            features = pooled(run(input_ids=ids, attention_mask=mask), mask, pooling)
            parts.append(checked(features, len(part)).float().numpy())
        return np.concatenate(parts)[np.argsort(order)] if order else parts[0][:0]

    def copy(folder: Path) -> None:
        with quiet():
            net.save_pretrained(folder, state_dict=trained_part(net, untrained))
            tokenizer.save_pretrained(folder)

    key = f"hf/{place} {digest.of_tensors(trained_part(net, untrained))[:16]} {pooling} {length}"
    return TextBackbone(embed, f"hf/{place}", pooling=pooling, key=key, copy=copy)


class ImageFeatures(nn.Module):
    """Normalised images -> feature vectors. `untrained`: the weights that no file has, and that are not used."""

    def __init__(self, net: Any, pooling: str, untrained: frozenset[str]) -> None:
        super().__init__()
        self.net, self.pooling, self.untrained = net, pooling, untrained
        self.run: Callable[..., Any] = getattr(net, "get_image_features", net)

    def forward(self, x: Tensor) -> Tensor:
        return pooled(self.run(pixel_values=x), None, self.pooling)


def text_part(net: Any) -> Any:
    """Of a model that reads and writes (T5, BART) the part that reads."""
    return net.get_encoder() if getattr(net.config, "is_encoder_decoder", False) else net


def pooled(out: Any, mask: Tensor | None, pooling: str) -> Tensor:
    """One vector (n, d) for each item.

    "pooler": what the model itself gives as pooler_output. "cls": its first token. "mean": the mean over tokens that are
    not padding, or over the places of an image. "auto": the first of pooler and mean that the model has.
    """
    if isinstance(out, Tensor):  # get_image_features and get_text_features of models that know both
        return out.flatten(1)
    own = getattr(out, "pooler_output", None)
    if pooling == "pooler" and own is None:
        raise OptionError(NO_POOLER)
    if own is not None and pooling in ("auto", "pooler"):
        return own.flatten(1)
    hidden: Tensor = out.last_hidden_state
    if hidden.ndim == 4:  # (n, d, H, W) of a convolutional network
        if pooling == "cls":
            raise OptionError("pooling='cls': this model has positions (H, W), not tokens; use pooling='mean'")
        return hidden.mean(dim=(2, 3))
    if pooling == "cls":
        return hidden[:, 0]
    if mask is None:
        return hidden.mean(dim=1)
    weight = mask[:, :, None].to(hidden.dtype)  # (n, T, 1)
    return (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)


def load_model(transformers: Any, place: str, pooling: str, both: str) -> tuple[Any, str, frozenset[str]]:
    """The model; the pooling, which is "mean" for "auto" where the pooler was never trained; and the names of the weights
    that were not in the file, and are random. `both`: a method of models for images and texts."""
    if pooling not in get_args(Pooling):
        raise OptionError(f"pooling must be one of {', '.join(get_args(Pooling))}, got {pooling!r}")
    with torch.random.fork_rng(devices=[]):  # what is missing is drawn
        net, info = loaded(transformers.AutoModel, place, "a model (config.json and weights)", output_loading_info=True)
    missing = frozenset(name for name in info["missing_keys"] if not name.endswith("position_ids"))
    others = sorted(name for name in missing if "pooler" not in name)
    if others:
        raise ModelError(
            f"hf/{place}: expected the weights of all layers, {len(others)} are missing ({', '.join(others[:3])}); they "
            "would be random"
        )
    if missing and not hasattr(net, both):
        if pooling == "pooler":
            raise OptionError(NO_POOLER)
        pooling = "mean" if pooling == "auto" else pooling
    return net.eval().requires_grad_(False), pooling, missing


def trained_part(net: nn.Module, untrained: frozenset[str]) -> dict[str, Tensor]:
    """The weights that were in the file."""
    return {name: tensor for name, tensor in net.state_dict().items() if name not in untrained}


def image_processor(transformers: Any, place: str) -> Any:
    return loaded(transformers.AutoImageProcessor, place, "an image processor (preprocessor_config.json)")


def loaded(kind: Any, place: str, what: str, **options: Any) -> Any:
    """kind.from_pretrained; from the folder or the cache alone where the hub need not, or must not, be asked."""
    here = Path(place).is_dir()
    if not here and (place.startswith((".", "/", "~")) or place.count("/") > 1):
        raise ModelError(f"hf/{place}: expected {what}, the folder is not there; check the path")
    asking = not here and can_ask_hub()
    try:
        with quiet():
            return kind.from_pretrained(place, trust_remote_code=False, local_files_only=not asking, **options)
    except Exception as error:  # transformers raises what its parts raise
        if here:
            advice = f"save one there with {kind.__name__}'s save_pretrained"
        elif asking:
            advice = "check the name, or use the folder of the model, as in hf/./my-model"
        else:
            advice = (
                "the hub cannot be reached (no network, or HF_HUB_OFFLINE is set), and the model was not downloaded "
                "before; use the folder of the model, as in hf/./my-model, or use it once with a network"
            )
        got = f"{type(error).__name__}: {first_line(error)}"
        raise ModelError(f"hf/{place}: expected {what}, got {got}; {advice}") from None


@contextmanager
def quiet() -> Iterator[None]:
    """Without the bars and tables that transformers prints while it loads; what they tell is checked here."""
    logging = import_module("transformers.utils.logging")
    before, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bar:
            logging.enable_progress_bar()


def package() -> ModuleType:
    with suppress(ModelError):  # some image processors use it, and it may need its guard; the others do without
        torchvision()
    return required("transformers", "hf")


def image_config(processor: Any, place: str) -> tuple[int, list[float], list[float]]:
    """Side, mean and deviation (of pixels from 0 to 1) that an image processor brings images to."""
    own = side_of(getattr(processor, "crop_size", None) if getattr(processor, "do_center_crop", False) else None)
    own = own or side_of(getattr(processor, "size", None))
    if own is None:
        raise ModelError(f"hf/{place}: expected an image processor that gives an image size, got none; pass size=")
    rescale = float(getattr(processor, "rescale_factor", 1 / 255)) if getattr(processor, "do_rescale", True) else 1.0
    mean, std = [0.0] * 3, [1.0] * 3
    if getattr(processor, "do_normalize", True):
        mean, std = list(processor.image_mean), list(processor.image_std)
    # (pixel * rescale - mean) / std, written with pixels from 0 to 1
    return own, [m / (255 * rescale) for m in mean], [s / (255 * rescale) for s in std]


def side_of(size: Any) -> int | None:
    """The side in pixels from what processors say: a number, {"height": ...} or {"shortest_edge": ...}."""
    if size is None or isinstance(size, int):
        return size
    for name in ("height", "shortest_edge"):
        value = size.get(name) if hasattr(size, "get") else getattr(size, name, None)
        if value is not None:
            return int(value)
    return None


def longest(tokenizer: Any, config: Any) -> int:
    """How many tokens a text may have."""
    own = tokenizer.model_max_length
    if own < 100_000:  # a tokenizer that does not know says 10^30
        return int(own)
    text = getattr(config, "text_config", config)
    places = getattr(text, "max_position_embeddings", None)
    # Some models (RoBERTa) keep two places for themselves.
    return min(LONGEST, int(places) - 2) if places else LONGEST


def copy_hf(features: nn.Module, place: str, folder: Path) -> str:
    """Writes the model of an `ImageFeatures` and its image processor into a folder, from where `hf_images` reads them; the
    pooling that goes with it. A pooler that was never trained stays out."""
    assert isinstance(features, ImageFeatures)
    processor = image_processor(package(), place)
    with quiet():
        features.net.save_pretrained(folder, state_dict=trained_part(features.net, features.untrained))
        processor.save_pretrained(folder)
    return features.pooling
