"""Networks by name, each ending in a linear head on a feature vector. Any other `nn.Module` works as well."""

from askless.nets.table import NETS, make

__all__ = ["NETS", "make"]
