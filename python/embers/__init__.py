"""embers: embedding tables of any size and key under a training loop in Python.

    import embers
    job = embers.connect()                    # or embers.local(): everything in this process
    users = job.table("user", dim=16, optimizer=embers.Adagrad(0.05))
    for batch in job.minibatches(len(data), 256, epochs=5):
        rows = users.lookup(data.user[batch.records])
        ...
        users.push(data.user[batch.records], grads)

embers.torch has layers and an optimizer for PyTorch. Errors are embers.Error, by what to do about them: see embers.errors."""
from . import constraints, initializers, optimizers, schedules
from ._core import __version__, unique, unique_strings
from .batch import Batch
from .connect import connect, local
from .errors import (BadFrame, BadInput, Corrupt, Denied, DiskError, Ended, Error, Fenced, GiveUp, Internal, JobFailed, Lost,
                     Mismatch, MissingKey, NotRegistered, OutOfRange, Refresh, Retry, StaleLease, StaleMap, StaleVersion,
                     Timeout, Unavailable, UnknownTable, Unreachable, UsageError)
from .host_embedding import HostEmbedding, HostEmbeddingOptimizerSpec, create_host_embedding, register
from .job import Job
from .optimizers import (SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Ftrl, GroupFtrl, Lion, Nadam, RMSprop,
                         RowwiseAdagrad, UpdateRule)
from .sampler import record_seed
from .table import Parameter, Table

__all__ = [
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "BadFrame", "BadInput", "Batch", "Corrupt", "Denied", "DiskError",
    "Ended", "Error", "Fenced", "Ftrl", "GiveUp", "GroupFtrl", "HostEmbedding", "HostEmbeddingOptimizerSpec", "Internal",
    "Job", "JobFailed", "Lion", "Lost", "Mismatch", "MissingKey", "Nadam", "NotRegistered", "OutOfRange", "Parameter",
    "RMSprop", "Refresh", "Retry", "RowwiseAdagrad", "SGD", "StaleLease", "StaleMap", "StaleVersion", "Table", "Timeout",
    "Unavailable", "UnknownTable", "Unreachable", "UpdateRule", "UsageError", "__version__", "connect", "constraints",
    "create_host_embedding", "initializers", "local", "optimizers", "record_seed", "register", "schedules", "unique",
    "unique_strings",
]
