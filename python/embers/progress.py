"""A bar for an epoch, by tqdm if it is there."""
from __future__ import annotations

import sys
from typing import Any, Optional


class Progress:
    """Shows how far the epoch is, all workers together: minibatches are leased in order, so the highest number that this
    worker has done tells. Without tqdm it shows nothing."""

    def __init__(self, show: Optional[bool], epoch: int, minibatches: int):
        self._bar: Any = None
        if show is False or (show is None and not sys.stderr.isatty()):
            return
        try:
            from tqdm import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=minibatches, desc=f"epoch {epoch}", unit="minibatch", leave=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def done(self, step: Any) -> None:
        if self._bar is None:
            return
        self._bar.update(max(0, step.minibatch.number + 1 - self._bar.n))
        if step.loss is not None:
            self._bar.set_postfix(loss=f"{step.loss:.4f}", refresh=False)
