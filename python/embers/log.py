"""What the C++ library logs goes through Python's `logging`, as the logger "embers". Its threads only queue lines; calls of
this package, and the end of the program, hand them over."""
from __future__ import annotations

import logging

logger = logging.getLogger("embers")

# By spdlog's levels: trace, debug, info, warning, error, critical.
_LEVELS = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def line(level: int, text: str) -> None:
    """A line of the library."""
    logger.log(_LEVELS[min(level, len(_LEVELS) - 1)], "%s", text)


def dropped(count: int) -> None:
    """So many lines waited for too long."""
    logger.warning("%d lines of the library's log were dropped, because this program called nothing of embers meanwhile",
                   count)
