"""What to subtract from feature vectors and to divide them by, before a network sees them."""

from torch import Tensor, cat, where

# Mean squared length of the features of a linear head, and of one with a hidden layer: so the learners' default learning
# rate suits every width; chosen on CIFAR-10 among a few values.
SQ_LENGTH = (1000.0, 33.0)
TILE = 1024  # rows whose lengths are computed at a time
SHORT = 64  # numbers in a vector up to which they are taken for measured, and not for an encoder's features


def evened(plain: Tensor, hidden: bool = False) -> tuple[Tensor, Tensor]:
    """For the features (n, d) of an encoder: the mean, and one number for all columns.

    Its directions stay as strong as they are. Dividing each by its own deviation would make the weakest, which are noise, as
    loud as the first.
    """
    mean = plain.mean(dim=0)
    length = cat([(part - mean).square().sum(dim=1) for part in plain.split(TILE)]).mean().clamp(min=1e-12)
    return mean, (length / SQ_LENGTH[hidden]).sqrt().expand_as(mean).clone()


def scaling(plain: Tensor) -> tuple[Tensor, Tensor]:
    """For numbers (n, d) of which nothing else is known: short rows are taken for measured, long ones for features."""
    return standardisation(plain) if plain.shape[1] <= SHORT else evened(plain)


def standardisation(plain: Tensor) -> tuple[Tensor, Tensor]:
    """For measured numbers (n, d), each in its own unit: each column's mean and deviation."""
    mean, std = plain.mean(dim=0), plain.std(dim=0)
    # A column that does not vary in the pool may do so outside: it is measured by the others' deviation.
    std = where(std > 1e-6 * plain.abs().amax(dim=0), std, std.mean().clamp(min=1e-12))
    return mean, std * (plain.shape[1] / SQ_LENGTH[False]) ** 0.5
