"""Errors, by what the caller should do about them. Those that come from the library have its message, and `code`, its name
for the error, such as "unknownTable"."""
from __future__ import annotations

from typing import Dict, Optional, Type


class Error(Exception):
    """Every error of this package."""

    code: Optional[str] = None


# --- ask again -------------------------------------------------------------------------------------


class Retry(Error):
    """The same call may succeed later."""


class Unavailable(Retry):
    """A process of the job cannot be reached now, or a connection ended."""

    code = "unavailable"


class Timeout(Retry, TimeoutError):
    """Nothing came within the time that was given."""

    code = "timeout"


# --- fetch newer state, then ask again ---------------------------------------------------------------


class Refresh(Error):
    """What was computed, or where it was sent, is out of date."""


class StaleMap(Refresh):
    """A shard has moved to another process."""

    code = "staleMap"


class StaleVersion(Refresh):
    """Computed on an old version of the model."""

    code = "staleVersion"


class StaleLease(Refresh):
    """The minibatch was given to another worker."""

    code = "staleLease"


# --- change what was given ---------------------------------------------------------------------------


class BadInput(Error, ValueError):
    """What was given cannot be used: the message says what was expected."""

    code = "invalid"


class BadFrame(BadInput):
    """The other side of a connection does not speak embers' protocol: the address is another program's."""

    code = "badFrame"


class Mismatch(BadInput):
    """This process and the job differ: in their version, model, data or settings."""

    code = "mismatch"


class UnknownTable(BadInput):
    """The job has no table of this name."""

    code = "unknownTable"


class MissingKey(BadInput):
    """A gradient of a key that has no row."""

    code = "missingKey"


class Unreachable(BadInput):
    """An address that never answered."""

    code = "unreachable"


class Denied(BadInput):
    """Not without the job's secret, not as this user, or not in this role."""

    code = "denied"


class OutOfRange(BadInput, IndexError):
    """An id outside of a host embedding."""


class UsageError(Error, RuntimeError):
    """A call came at the wrong time."""


class NotRegistered(UsageError):
    """A host embedding is used outside of the scope in which it is registered with a job."""


# --- give up -----------------------------------------------------------------------------------------


class GiveUp(Error):
    """The job cannot go on, or not with this process."""


class Fenced(GiveUp):
    """This process was given up on, and its work went to others."""

    code = "fenced"


class Lost(GiveUp):
    """A process of the job is gone."""

    code = "lost"


class JobFailed(GiveUp):
    """The job ended with an error elsewhere."""

    code = "jobFailed"


class Corrupt(GiveUp):
    """A checkpoint or an index that cannot be read back."""

    code = "corrupt"


class Internal(GiveUp):
    """A bug in embers."""

    code = "internal"


class DiskError(GiveUp, OSError):
    """A disk that is full or fails."""

    code = "disk"


class Ended(GiveUp):
    """The job is over, and ended well."""

    code = "ended"


def _by_code() -> Dict[str, Type[Error]]:
    found: Dict[str, Type[Error]] = {}
    todo = [Error]
    while todo:
        error = todo.pop()
        if "code" in vars(error) and error.code is not None:
            found[error.code] = error
        todo += error.__subclasses__()
    return found


_BY_CODE = _by_code()


def class_of(code: str) -> Type[Error]:
    """The class for the library's name of an error."""
    return _BY_CODE.get(code, Internal)
