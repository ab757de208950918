"""Which host embeddings are registered with a job."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence

from .errors import BadInput, UsageError

if TYPE_CHECKING:
    from .host_embedding import HostEmbedding


class HostEmbeddings:
    """Those of a job, in the order in which they were registered."""

    def __init__(self) -> None:
        self._now: Dict[str, "HostEmbedding"] = {}
        self._joined: Optional[List["HostEmbedding"]] = None  # with which this program has joined as a worker
        self.lookahead = 0

    def __bool__(self) -> bool:
        return bool(self._now)

    def add(self, embeddings: Sequence["HostEmbedding"], lookahead: int) -> None:
        """All of them, or none. Raises UsageError."""
        names = set(self._now)
        for embedding in embeddings:
            if embedding._job is not None:
                raise UsageError(f"host embedding '{embedding.name}' is registered already: leave the `with` block that it is "
                                 "registered in, or look it up within that")
            if embedding.name in names:
                raise UsageError(f"the job has a host embedding '{embedding.name}' registered already: register each once, or "
                                 "create one with another name")
            names.add(embedding.name)
            if self._joined is not None:
                self._check_joined(embedding, self._joined)
        if self._now and lookahead != self.lookahead:
            raise UsageError(f"lookahead={lookahead}, but the job has host embeddings registered with lookahead="
                             f"{self.lookahead}: register all together, embers.register(job, a, b, lookahead=k)")
        self.lookahead = lookahead
        for embedding in embeddings:
            self._now[embedding.name] = embedding

    def _check_joined(self, embedding: "HostEmbedding", joined: List["HostEmbedding"]) -> None:
        for one in joined:
            if one.is_same(embedding):
                return
            if one.name == embedding.name:
                raise UsageError(f"this program has joined the job with {one!r}, so {embedding!r} comes too late: register the "
                                 "first one again, or begin another job")
        names = ", ".join(f"'{e.name}'" for e in joined) or "no host embedding"
        raise UsageError(f"host embedding '{embedding.name}' comes too late: this program has joined the job with {names}. "
                         "Register all of them before the first minibatch, and around a loop over job.epochs()")

    def remove(self, embeddings: Sequence["HostEmbedding"]) -> None:
        for embedding in embeddings:
            self._now.pop(embedding.name, None)

    def now(self) -> List["HostEmbedding"]:
        """Those that are registered."""
        return list(self._now.values())

    def sees_every_update(self, table: str) -> bool:
        """Whether lookups of it see every update of this program."""
        return table in self._now and self.lookahead == 0

    def specs(self) -> Dict[str, Any]:
        """What a worker declares of them, by name; once it has joined, what it has declared."""
        return {e.name: e.table_spec() for e in (self.now() if self._joined is None else self._joined)}

    def join(self, others: Iterable[str]) -> List[Any]:
        """The program joins as a worker, with these besides the tables of the given names."""
        specs = self.specs()
        for name in others:
            if name in specs:
                raise BadInput(f"table '{name}' is defined twice, by a host embedding and by a layer or job.table(): give one of "
                               "them another name")
        return list(specs.values())

    def joined(self) -> None:
        """It has joined with what join() gave."""
        if self._joined is None:
            self._joined = self.now()

    def ahead(self, given: Optional[int], has_keys: bool) -> int:
        """Of how many minibatches job.train(ahead=given) pulls rows ahead."""
        if not self._now:
            return 1 if given is None else given
        if given is not None and given != self.lookahead:
            raise UsageError(f"ahead={given}, but host embeddings are registered with lookahead={self.lookahead}: leave out "
                             "ahead")
        if self.lookahead > 0 and not has_keys:
            raise UsageError(f"lookahead={self.lookahead} needs the ids of a batch before it is trained on: say "
                             "job.train(loader, keys=lambda batch: {" + ", ".join(f'"{name}": ...' for name in self._now) + "})")
        return self.lookahead

