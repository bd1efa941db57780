"""What a training chose by itself and what the check items made of its confidence, in words."""

from collections.abc import Mapping


def in_words(numbers: Mapping[str, float], labels: int, noun: str) -> str:
    r"""One sentence for the page, the terminal and the report, from what `auto` logged of a training on these labels, and
    another where it met rows that are far beyond the others; empty for a learner that chooses nothing.

    >>> chosen = {"graph": 0.9, "alone": 0.3, "alone_decay": 0.01, "decay": 0.0001, "temperature": 1.25}
    >>> print(in_words(chosen, 24, "image").replace(" (cr", "\n(cr").replace(": ", ":\n").replace(", the", ",\nthe"))
    The model tried several settings and kept those that best predicted labels held back from it
    (cross-validation on 24 labels):
    similar images count 75 % and the labels alone 25 % (weight decay 0.01),
    the final layer has weight decay 0.0001, and its certainty is toned down (temperature 1.25).
    """
    if not {"graph", "alone", "alone_decay", "decay", "temperature"} <= set(numbers):
        return ""
    graph = round(100 * numbers["graph"] / (numbers["graph"] + numbers["alone"]))
    temperature = round(numbers["temperature"], 2)
    certainty = "kept" if temperature == 1 else "toned down" if temperature > 1 else "raised"
    said = (
        f"The model tried several settings and kept those that best predicted labels held back from it (cross-validation on "
        f"{labels} labels): similar {noun}s count {graph} % and the labels alone {100 - graph} % (weight decay "
        f"{numbers['alone_decay']:g}), the final layer has weight decay {numbers['decay']:g}, and its certainty is "
        f"{certainty} (temperature {temperature:g})."
    )
    far = int(numbers.get("far", 0))
    if far:
        few = f"1 {noun} lies" if far == 1 else f"{far} {noun}s lie"
        said += (
            f" {few} so far from all others that training treated them as nearer; look for damaged or foreign {noun}s."
        )
    return said


def confidence_in_words(sharpness: float, noun: str) -> str:
    """What the check items did to the model's confidence; empty where that is next to nothing.

    >>> confidence_in_words(0.5, "image")
    'The check images show that it was too sure, so its confidence is lowered (temperature 2).'
    """
    if 0.99 < sharpness < 1.01:
        return ""
    found, done = ("too sure", "lowered") if sharpness < 1 else ("not sure enough", "raised")
    temperature = f"temperature {round(1 / sharpness, 2):g}"
    return f"The check {noun}s show that it was {found}, so its confidence is {done} ({temperature})."
