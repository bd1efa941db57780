"""A run on texts: the settings that go with them.

The texts are kept in the run's database, as a column of their items: a table that is changed later changes nothing.
"""

from dataclasses import replace

from askless.base.errors import OptionError
from askless.run.settings import BACKBONE, FALLBACK, TEXT_BACKBONE, Settings


def with_text_net(settings: Settings, column: str) -> Settings:
    """The settings for texts, with the column that was found and a backbone for texts."""
    if settings.net in (BACKBONE, FALLBACK):
        settings = replace(settings, net=TEXT_BACKBONE)
    if settings.net != TEXT_BACKBONE and not settings.net.startswith("frozen:hf/"):
        raise OptionError(
            f"net: texts need a backbone for texts, {TEXT_BACKBONE} or frozen:hf/FOLDER, got {settings.net!r}"
        )
    return replace(settings, text=column)
