"""Bags of ids to vectors, with autograd and fused update rules."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch.autograd.function import once_differentiable

from ...errors import BadInput, UsageError
from ...optimizers import SGD, Adagrad, Adam, RowwiseAdagrad, UpdateRule
from .index import Index
from .library import (NUMBER_TYPES, BatchStruct, ColumnStruct, ModelStruct, ProblemsStruct, TableStruct, UpdateStruct, library,
                      capturing, destroy, destroy_doomed, numbered, on_device, pointer, stream_of)
from .specs import Column, Table

_COMBINERS = {"sum": 1, "mean": 2, "sqrtn": 3}
_GRADIENTS, _SGD, _ADAGRAD, _ADAM, _ROWWISE_ADAGRAD = range(5)
_RULES: Dict[type, Tuple[int, int]] = {  # number in embers_cuda.h, slots
    SGD: (_SGD, 0), Adagrad: (_ADAGRAD, 1), Adam: (_ADAM, 2), RowwiseAdagrad: (_ROWWISE_ADAGRAD, 1)}


class _Model:
    """The library's description of the tables, which are at `places` and have so many rows."""

    def __init__(self, description: ModelStruct, places: Any):
        self.places = places
        self.rows = [description.tables[n].count for n in range(description.table_count)]
        self.handle = ctypes.c_void_p()
        library()("lookup_create", ctypes.byref(description), ctypes.byref(self.handle))

    def __del__(self) -> None:
        if self.handle:
            destroy("lookup_destroy", self.handle)


class _Pass:
    """A forward pass, kept for its backward pass."""

    def __init__(self, batch: BatchStruct, kept: Tuple[Optional[torch.Tensor], ...], state: Optional[torch.Tensor], rows: List[int]):
        self.batch, self.kept, self.state, self.rows = batch, kept, state, rows


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bags: "EmbeddingBagCollection", wanted: bool, ids: torch.Tensor, offsets: torch.Tensor,
                weights: Optional[torch.Tensor], *tables: torch.Tensor) -> torch.Tensor:
        ctx.bags = bags
        ctx.dtype = None if weights is None else weights.dtype
        out, ctx.passed = bags._forward(ids, offsets, weights, wanted)
        ctx.tables = tables
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        if ctx.passed.state is None:
            raise UsageError("et.cuda: a second backward pass over one lookup")
        if gradient.dtype != torch.float32 or gradient.dim() != 2 or gradient.stride(1) != 1:
            gradient = gradient.to(torch.float32).contiguous()
        of_weights = ctx.bags._weight_gradient(ctx.passed, gradient) if ctx.needs_input_grad[4] else None
        if of_weights is not None:
            of_weights = of_weights.to(ctx.dtype)
        of_tables: Sequence[Optional[torch.Tensor]] = [None] * len(ctx.tables)
        if ctx.bags.optimizer is not None:
            if ctx.needs_input_grad[5]:
                ctx.bags._update(ctx.passed, gradient)
            ctx.passed.state = None
        elif any(ctx.needs_input_grad[5:]):
            of_tables = ctx.bags._gradients(ctx.passed, gradient)
        return (None, None, None, None, of_weights, *of_tables)


class EmbeddingBagCollection(torch.nn.Module):
    """All columns of a model, looked up by one launch and trained by two more.

    tables, columns: Table and Column; columns in the order of their tables.
    optimizer: embers.SGD, Adagrad, Adam or RowwiseAdagrad: backward() then applies it to the rows, as torch's
        SparseAdam would in step(); rows without a gradient do not change. Each lookup is a step of its own: look all ids of a
        minibatch up at once. Without one, the tables are parameters,
        whose gradients are sparse tensors, coalesced (sparse=False: dense).
    dtype: of rows, float32 or float16. Results and gradients are float32.
    check: "later" finds ids that are no row when it costs nothing: at a later call. Such ids are left out. check_errors() asks
        at any time. "now" waits for the device in every forward pass, and looks into the offsets, too, which are trusted
        otherwise.

    forward(ids, offsets, weights=None): int64 (ids,); int64 (columns x bags + 1,), from 0 to the number of ids, column
    after column (or to fewer: ids beyond do not count; not with tables of keys or check="now"); float32 (ids,). On the device of the
    tables. Returns float32 (bags, sum of the columns' dims).
    Raises BadInput for ids, offsets and weights that do not fit."""

    def __init__(self, tables: Sequence[Table], columns: Sequence[Column], optimizer: Optional[UpdateRule] = None, *,
                 dtype: torch.dtype = torch.float32, device: Union[str, torch.device, None] = None, sparse: bool = True,
                 check: str = "later"):
        super().__init__()
        if check not in ("later", "now"):
            raise BadInput(f'check="{check}" is none of "later" and "now"')
        if dtype not in NUMBER_TYPES:
            raise BadInput(f"rows are float32 or float16, not {dtype}")
        rule = _RULES.get(type(optimizer)) if optimizer is not None else (_GRADIENTS, 0)
        if rule is None:
            raise BadInput(f"{type(optimizer).__name__} has no fused kernel: use SGD, Adagrad, Adam or RowwiseAdagrad")
        for name in ("momentum", "nesterov", "amsgrad", "schedule", "clipvalue", "clipnorm", "global_clipnorm"):
            if getattr(optimizer, name, None):
                raise BadInput(f"{type(optimizer).__name__}: {name} has no fused kernel")
        self.tables, self.columns = list(tables), list(columns)
        self.optimizer, self.sparse, self.check = optimizer, sparse, check
        self.learning_rate = getattr(optimizer, "learning_rate", 0.0)  # may be changed between steps
        self._rule, self._slot_count = rule
        self._dtype = dtype
        device = torch.device(device or ("cpu" if library().on_cpu else "cuda"))
        if device.type == "cuda" and not torch.cuda.is_available():
            raise UsageError(f"et.cuda needs a GPU, and a PyTorch with CUDA; PyTorch {torch.__version__} sees none")
        device = numbered(device)
        library().check_device(device)
        keyed = [n for n, table in enumerate(self.tables) if table.num_embeddings is None]
        if keyed and (optimizer is None or len(self.tables) > 1):
            raise BadInput(f"table {keyed[0]}: num_embeddings=None needs an optimizer, and no other table beside it")
        if keyed and len({c.prune_invalid_ids for c in self.columns}) > 1:
            raise BadInput("columns of a table of keys prune all, or none does")
        self.index: Optional[Index] = None
        for n, table in enumerate(self.tables):
            slot_dim = 1 if self._rule == _ROWWISE_ADAGRAD else table.embedding_dim
            slot_value = getattr(optimizer, "initial_accumulator_value", 0.0)
            if table.num_embeddings is None:
                self.index = Index(table, dtype, self._slot_count, slot_dim, slot_value, device)
                continue
            rows = torch.empty(table.num_embeddings, table.embedding_dim, dtype=dtype, device=device)
            if rows.numel():
                torch.nn.init.normal_(rows)
            if optimizer is None:
                self.register_parameter(f"weight_{n}", torch.nn.Parameter(rows))
            else:
                self.register_buffer(f"weight_{n}", rows)
            for s in range(self._slot_count):
                slot = torch.full((table.num_embeddings, slot_dim), slot_value, dtype=torch.float32, device=device)
                self.register_buffer(f"slot_{n}_{s}", slot)
            if table.partitions is not None:
                first = torch.tensor([0, *table.partitions], dtype=torch.int64).cumsum(0)
                self.register_buffer(f"first_{n}", first.to(device), persistent=False)
        steps = torch.zeros((), dtype=torch.int64, device=device)
        if self.index is None:
            self.register_buffer("_steps", steps, persistent=False)
        else:
            self._steps = steps  # stays where the index is
        self._device = device
        self._anchor = [torch.zeros((), requires_grad=True)]  # in a list: no parameter of the module
        self._model: Optional[_Model] = None
        self._known_problems: List[ProblemsStruct] = []
        self._workspace: List[torch.Tensor] = []
        self._captured: List[Any] = []  # what graphs use, which nobody else keeps
        self._defaults: List[int] = []
        self._sizes: Dict[Any, Tuple[int, ...]] = {}  # of memory, by the shape of a batch
        self._width = 0
        self.dims = [self.tables[c.table].embedding_dim if 0 <= c.table < len(self.tables) else 0 for c in self.columns]
        self._width = sum(self.dims)
        self._prepare()

    @property
    def device(self) -> torch.device:
        return self._device if self.index is not None else self.weight(0).device

    def weight(self, table: int) -> torch.Tensor:
        """The rows of a table: (num_embeddings, embedding_dim)."""
        found: torch.Tensor = getattr(self, f"weight_{table}")
        return found

    def slot(self, table: int, number: int) -> torch.Tensor:
        """What the update rule keeps of each row: Adam's m and v, Adagrad's sum."""
        found: torch.Tensor = getattr(self, f"slot_{table}_{number}")
        return found

    @property
    def step(self) -> int:
        """The number of steps so far. They are counted on the device, which this waits for."""
        self._refuse_capture()
        return int(self._steps)

    @step.setter
    def step(self, count: int) -> None:
        if count < 0:
            raise BadInput(f"{count} steps: there cannot be fewer than none")
        self._steps.fill_(count)

    def get_extra_state(self) -> Any:
        return {"step": self.step, "learning_rate": self.learning_rate}

    def set_extra_state(self, state: Any) -> None:
        self.step, self.learning_rate = state["step"], state["learning_rate"]

    def _note_problems(self) -> None:
        """Waits for the device, and remembers what it reports."""
        self._refuse_capture()
        for model in self._models():
            problems = ProblemsStruct()
            library()("lookup_problems", model.handle, ctypes.byref(problems), stream_of(self.device))
            if problems.bad_ids or problems.bad_gradients:
                self._known_problems.append(problems)

    def _models(self) -> Iterator[_Model]:
        """All that report problems: the present description of the tables, and those that graphs use."""
        if self._model is not None:
            yield self._model
        for model, _, _ in self._captured:
            if model is not self._model:
                yield model

    def _refuse_capture(self) -> None:
        if capturing(self.device):
            raise UsageError("et.cuda: a CUDA graph cannot record what waits for the device: check=\"now\", check_errors(), step, "
                             "tables of keys, and tables that move")

    def __getstate__(self) -> Dict[str, Any]:  # copies and pickles prepare themselves anew
        return dict(self.__dict__, _model=None, _workspace=[], _captured=[], _known_problems=[])

    def _describe(self, n: int, to: TableStruct) -> None:
        table = self.tables[n]
        if table.strategy not in ("div", "mod"):
            raise BadInput(f'strategy "{table.strategy}" is none of "div" and "mod"')
        if table.max_norm is not None:
            if not table.max_norm > 0 or table.max_norm == float("inf"):
                raise BadInput(f"max_norm is {table.max_norm}: it must be positive and finite")
            to.max_norm = table.max_norm
        if self.index is not None:
            return self.index.describe(to)
        rows = self.weight(n)
        library().check_device(rows.device)
        if rows.dtype != self._dtype or not rows.is_contiguous() or rows.dim() != 2 or rows.shape[1] != table.embedding_dim:
            raise BadInput(f"table {n}: rows must be contiguous, {self._dtype} and of dim {table.embedding_dim}, not {rows.dtype} and {tuple(rows.shape)}")
        to.rows, to.count, to.dim, to.row_stride = pointer(rows), len(rows), table.embedding_dim, table.embedding_dim
        for s in range(self._slot_count):
            slot, width = self.slot(n, s), 1 if self._rule == _ROWWISE_ADAGRAD else table.embedding_dim
            if (slot.dtype != torch.float32 or not slot.is_contiguous() or slot.device != rows.device
                    or tuple(slot.shape) != (len(rows), width)):
                raise BadInput(f"table {n}: slots must be contiguous, float32 and of shape {(len(rows), width)} beside their rows, "
                               f"not {slot.dtype} and {tuple(slot.shape)}")
            to.slots[s], to.slot_stride = pointer(slot), width
        if table.partitions is not None:
            if sum(table.partitions) != len(rows) or min(table.partitions) < 0:
                raise BadInput(f"table {n}: partitions of {list(table.partitions)} rows are not its {len(rows)} rows")
            to.partitions, to.first = len(table.partitions), pointer(getattr(self, f"first_{n}"))
            to.strategy, to.counted = int(table.strategy == "mod"), int(table.counted)

    def _default_of(self, column: Column) -> int:
        if column.default_id is None or self.index is None:
            return column.default_id or 0
        key = torch.tensor([column.default_id], device=self.device)
        return int(self.index.rows_of(key, create=True, skip_negative=False))

    def _prepare(self) -> _Model:
        """The library's description of the tables, made anew where they have moved."""
        if self.index is None:
            places: Any = [t.data_ptr() for held in (self._parameters, self._buffers) for t in held.values() if t is not None]
            if self._model is not None and places == self._model.places:
                return self._model
        defaults = self._defaults if self._model is not None else [self._default_of(c) for c in self.columns]
        tables = (TableStruct * len(self.tables))()
        for n, table in enumerate(tables):
            self._describe(n, table)
        if self.index is not None:
            places = bytes(tables)
            if self._model is not None and places == self._model.places:
                return self._model
        self._note_problems()
        columns, out = (ColumnStruct * len(self.columns))(), 0
        for c, column, dim, default in zip(columns, self.columns, self.dims, defaults):
            if column.mode not in _COMBINERS:
                raise BadInput(f'mode "{column.mode}" is none of "sum", "mean" and "sqrtn"')
            c.table, c.combiner, c.out_column = column.table, _COMBINERS[column.mode], out
            c.prune_ids, c.prune_weights = int(column.prune_invalid_ids or self.index is not None), int(column.prune_invalid_ids and column.prune_weights)
            c.has_default, c.default_id = int(column.default_id is not None), default
            out += dim
        model = ModelStruct(tables, len(tables), columns, len(columns), NUMBER_TYPES[self._dtype])
        with on_device(self.device):
            self._model = _Model(model, places)
        self._defaults = defaults
        self._sizes.clear()
        return self._model

    def requires_grad_(self, requires_grad: bool = True) -> "EmbeddingBagCollection":
        """Whether backward() changes the rows, or gives them gradients. While it does not, a table of keys creates no rows. To be
        called on the collection itself: rows that an optimizer changes here are no parameters of a model around it."""
        super().requires_grad_(requires_grad)
        self._anchor[0].requires_grad_(requires_grad)
        return self

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor, weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        if self.optimizer is None:
            tables = [self.weight(n) for n in range(len(self.tables))]
        else:
            tables = self._anchor
        needs_gradient = any(t.requires_grad for t in tables) or (weights is not None and weights.requires_grad)
        out: torch.Tensor = _Lookup.apply(self, torch.is_grad_enabled() and needs_gradient, ids, offsets, weights, *tables)
        return out

    def _batch(self, ids: torch.Tensor, offsets: torch.Tensor, weights: Optional[torch.Tensor]) -> Tuple[BatchStruct, Any]:
        device = self.device
        for name, tensor, dtypes in (("ids", ids, (torch.int64,)), ("offsets", offsets, (torch.int64,)),
                                     ("weights", weights, (torch.float32, torch.float16))):
            if tensor is None:
                continue
            if tensor.dim() != 1:
                raise BadInput(f"{name} of shape {tuple(tensor.shape)} must have one dimension")
            if tensor.dtype not in dtypes:
                raise BadInput(f"{name} are {tensor.dtype}: they must be {dtypes[0]}")
            if tensor.device != device:
                raise BadInput(f"{name} are on {tensor.device}, the tables on {device}")
        if weights is not None and len(weights) != len(ids):
            raise BadInput(f"there are {len(weights)} weights for {len(ids)} ids: give one for each id")
        if len(offsets) == 0 or (len(offsets) - 1) % len(self.columns) != 0:
            raise BadInput(f"{len(offsets)} offsets for {len(self.columns)} columns: give one for each bag, and the end")
        ids, offsets = ids.contiguous(), offsets.contiguous()
        if self.check == "now":
            right = (offsets[0] == 0) & (offsets[-1] == len(ids)) & (offsets[1:] >= offsets[:-1]).all()
            if not bool(right):
                raise BadInput(f"the offsets of {len(ids)} ids must go from 0 to {len(ids)} in order")
        weights = None if weights is None else weights.to(torch.float32).contiguous()
        batch = BatchStruct(pointer(ids), pointer(offsets), pointer(weights), len(ids), (len(offsets) - 1) // len(self.columns))
        return batch, (ids, offsets, weights)

    def _memory(self, model: _Model, batch: BatchStruct) -> Tuple[int, List[torch.Tensor]]:
        shape = (batch.id_count, batch.bags, batch.weights is None)
        if shape not in self._sizes:
            sizes = [ctypes.c_size_t() for _ in range(3)]
            library()("lookup_memory", model.handle, ctypes.byref(batch), *(ctypes.byref(s) for s in sizes))
            if len(self._sizes) > 1000:
                self._sizes.clear()
            self._sizes[shape] = tuple(s.value for s in sizes)
        state, workspace, counters = self._sizes[shape]
        device = self.device
        if self._workspace and self._workspace[0].device != device:
            self._workspace.clear()
        for n, (make, wanted) in enumerate(((torch.empty, workspace), (torch.zeros, counters))):
            if n < len(self._workspace) and len(self._workspace[n]) >= wanted:
                continue
            if capturing(device):
                raise UsageError("et.cuda: a CUDA graph cannot record that memory is found: take a step of this size before the "
                                 "capture")
            if n < len(self._workspace) and device.type != "cpu":
                self._workspace[n].record_stream(torch.cuda.current_stream(device))  # found on another, perhaps
            self._workspace[n:n + 1] = [make(wanted, dtype=torch.uint8, device=device)]
        if capturing(device) and not any(held[0] is model and held[1] is self._workspace[0] and held[2] is self._workspace[1]
                                         for held in self._captured):
            self._captured.append((model, *self._workspace))
        return state, self._workspace

    def _forward(self, ids: torch.Tensor, offsets: torch.Tensor, weights: Optional[torch.Tensor],
                 wanted: bool) -> Tuple[torch.Tensor, _Pass]:
        device = self.device
        captured = capturing(device)
        if captured and (self.check == "now" or self.index is not None):
            self._refuse_capture()
        destroy_doomed()
        if not captured and (self._known_problems or any(library().calls.embers_cuda_lookup_has_problems(m.handle)
                                                         for m in self._models())):
            self.check_errors()
        batch, kept = self._batch(ids, offsets, weights)
        if self.index is not None:
            rows = self.index.rows_of(kept[0], wanted and self._anchor[0].requires_grad, any(c.prune_invalid_ids for c in self.columns))
            kept = (rows, *kept[1:])
            batch.ids = pointer(rows)
        model = self._prepare()
        state_bytes, workspace = self._memory(model, batch)
        out = torch.empty(batch.bags, self._width, dtype=torch.float32, device=device)
        state = torch.empty(state_bytes, dtype=torch.uint8, device=device) if wanted else None
        library()("lookup_forward", model.handle, ctypes.byref(batch), out.data_ptr(),
                  out.stride(0), pointer(state),
                  *(w.data_ptr() for w in workspace), stream_of(device))
        if self.check == "now":
            self.check_errors(kept[0], batch.bags)
        return out, _Pass(batch, kept, state, model.rows)

    def _backward_arguments(self, passed: _Pass, gradient: torch.Tensor) -> Tuple[_Model, Tuple[Any, ...]]:
        assert passed.state is not None
        model = self._prepare()
        if self.index is None and model.rows != passed.rows:
            raise UsageError(f"et.cuda: the tables had {passed.rows} rows in the forward pass and have {model.rows} in the backward "
                             "pass: change their number between steps")
        _, workspace = self._memory(model, passed.batch)
        return model, (gradient.data_ptr(), gradient.stride(0),
                       passed.state.data_ptr(), *(w.data_ptr() for w in workspace))

    def _update(self, passed: _Pass, gradient: torch.Tensor) -> None:
        model, arguments = self._backward_arguments(passed, gradient)
        if self._steps.device != gradient.device:
            raise BadInput(f"tables are on {gradient.device}, the number of steps on {self._steps.device}: move the module as a whole")
        o = self.optimizer
        update = UpdateStruct(self._rule, getattr(o, "weight_decay", 0.0), self.learning_rate, getattr(o, "beta_1", 0.0),
                         getattr(o, "beta_2", 0.0), getattr(o, "epsilon", 0.0), self._steps.data_ptr())
        library()("lookup_update", model.handle, ctypes.byref(passed.batch), ctypes.byref(update),
                  *arguments, stream_of(gradient.device))

    def _weight_gradient(self, passed: _Pass, gradient: torch.Tensor) -> torch.Tensor:
        model, arguments = self._backward_arguments(passed, gradient)
        of_weights = torch.zeros(passed.batch.id_count, dtype=torch.float32, device=gradient.device)
        library()("lookup_weight_gradient", model.handle, ctypes.byref(passed.batch),
                  *arguments[:3], of_weights.data_ptr(), stream_of(self.device))
        return of_weights

    def _gradients(self, passed: _Pass, gradient: torch.Tensor) -> List[Optional[torch.Tensor]]:
        if capturing(gradient.device):
            raise UsageError("et.cuda: a CUDA graph cannot record gradients of tables, whose number is known afterwards: give the "
                             "collection an optimizer")
        model, arguments = self._backward_arguments(passed, gradient)
        defaults = sum(c.default_id is not None for c in self.columns)
        most, device = passed.batch.id_count + defaults * passed.batch.bags, gradient.device
        dim = max(t.embedding_dim for t in self.tables)
        rows = torch.empty(most, dtype=torch.int64, device=device)
        values = torch.empty(most, dim, dtype=torch.float32, device=device)
        count = torch.zeros(1, dtype=torch.int64, device=device)
        if most > 0:
            library()("lookup_gradients", model.handle, ctypes.byref(passed.batch),
                      *arguments, rows.data_ptr(),
                      values.data_ptr(), dim, count.data_ptr(),
                      stream_of(self.device))
        rows = rows[:int(count)]
        sizes = torch.tensor([0] + [len(self.weight(n)) for n in range(len(self.tables))]).cumsum(0)
        bounds = torch.searchsorted(rows, sizes.to(device)).tolist()
        found: List[Optional[torch.Tensor]] = []
        for n, table in enumerate(self.tables):
            weight, begin, end = self.weight(n), bounds[n], bounds[n + 1]
            at = rows[begin:end] - int(sizes[n])
            each = torch.empty(end - begin, table.embedding_dim, dtype=weight.dtype, device=device)
            each.copy_(values[begin:end, :table.embedding_dim])
            if self.sparse:
                of_table = torch.sparse_coo_tensor(at.unsqueeze(0), each, weight.shape)
                found.append(of_table._coalesced_(True))
            else:
                found.append(torch.zeros_like(weight).index_copy_(0, at, each))
        return found

    def check_errors(self, ids: Optional[torch.Tensor] = None, bags: int = 1) -> None:
        """Waits for the device. Raises BadInput if any id since the last check was no row, or any row's gradient was not
        finite; they were left out. `ids`, `bags`: of the forward pass, for the message."""
        self._note_problems()
        known, self._known_problems = self._known_problems, []
        bad_ids, bad_gradients = sum(p.bad_ids for p in known), sum(p.bad_gradients for p in known)
        said = []
        if bad_ids:
            first = next(p for p in known if p.bad_ids)
            said.append(self._bad_id(first, ids, bags) if ids is not None and self.index is None else
                        f"{bad_ids} ids are no rows of their tables; the first is number {first.position} of the ids, in bag "
                        f"{first.bag} of all columns' bags. They were left out")
        if bad_gradients:
            said.append(f"the gradients of {bad_gradients} rows were not finite, or had numbers of 2^63 or more: these rows did not "
                        "change")
        if said:
            raise BadInput(". And ".join(said))

    def _bad_id(self, problems: ProblemsStruct, ids: torch.Tensor, bags: int) -> str:
        column = self.columns[problems.bag // bags]
        rows, parts = len(self.weight(column.table)), len(self.tables[column.table].partitions or [0])
        if problems.position < 0:
            return f"default_id {column.default_id} is not a row of the table, which has {rows} rows"
        bad = int(ids[problems.position])
        if bad < 0:
            return (f"id {bad} (number {problems.position} of the ids) is negative: leave such ids out with "
                    "prune_invalid_ids=True")
        return (f"id {bad} (number {problems.position} of the ids) is out of range: the table has {rows} rows in {parts} "
                f"{'partition' if parts == 1 else 'partitions'}")


class EmbeddingBag(EmbeddingBagCollection):
    """torch.nn.EmbeddingBag with a fused backward pass: one table and one column of an EmbeddingBagCollection, whose
    other arguments it takes, too.

    mode: "sum", "mean", or "sqrtn".
    initial, seed, capacity: of a table of keys (num_embeddings=None), as a Table's.
    forward(input, offsets=None, per_sample_weights=None): as torch's. `input` is int64, (bags, ids) or, with the first
    place of each bag in `offsets`, (ids,); with include_last_offset=True offsets have the end, too. Weights go with all
    modes. Returns float32, (bags, embedding_dim)."""

    def __init__(self, num_embeddings: Optional[int], embedding_dim: int, max_norm: Optional[float] = None, *, mode: str = "mean",
                 default_id: Optional[int] = None, prune_invalid_ids: bool = False, prune_weights: bool = True,
                 include_last_offset: bool = False, optimizer: Optional[UpdateRule] = None,
                 dtype: torch.dtype = torch.float32, device: Union[str, torch.device, None] = None, sparse: bool = True,
                 check: str = "later", initial: Tuple[float, float] = (-0.05, 0.05), seed: Optional[int] = None, capacity: int = 1 << 16):
        table = Table(num_embeddings, embedding_dim, max_norm, initial=initial, seed=seed, capacity=capacity)
        super().__init__([table], [Column(0, mode, default_id, prune_invalid_ids, prune_weights)],
                         optimizer, dtype=dtype, device=device, sparse=sparse, check=check)
        self.include_last_offset = include_last_offset

    def forward(self, input: torch.Tensor, offsets: Optional[torch.Tensor] = None,
                per_sample_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        if input.dim() == 2:
            if offsets is not None:
                raise BadInput("input of two dimensions has a bag in each row: leave out offsets")
            bags, length = input.shape
            bounds = torch.arange(bags + 1, device=input.device) * length
            if per_sample_weights is not None:
                per_sample_weights = per_sample_weights.reshape(-1)
        elif input.dim() != 1:
            raise BadInput(f"input of shape {tuple(input.shape)} must have one or two dimensions")
        elif offsets is None:
            raise BadInput("input of one dimension needs offsets, the first place of each bag")
        elif self.include_last_offset:
            bounds = offsets
        else:
            bounds = torch.cat([offsets, torch.full((1,), len(input), dtype=offsets.dtype, device=offsets.device)])
        return super().forward(input.reshape(-1), bounds, per_sample_weights)
