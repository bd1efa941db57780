"""Networks by name, each ending in a linear head on a feature vector. Any other `nn.Module` works as well."""

from askless.nets.table import NETS, make
from askless.nets.waves import Waves

__all__ = ["NETS", "Waves", "make"]
