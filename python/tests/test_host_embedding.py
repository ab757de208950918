"""Host embeddings under NumPy, and what they refuse."""
import copy
import logging
import re

import numpy as np
import pytest

import embers
from embers.errors import BadInput, Mismatch, NotRegistered, OutOfRange, UnknownTable, UsageError
from jobs import SUM, job  # noqa: F401

SGD = embers.HostEmbeddingOptimizerSpec(1.0)


def create(name="t", shape=(10, 3), dtype="float32", strategy="TOKEN", spec=SGD, initializer=None):
    return embers.create_host_embedding(name, shape, dtype, strategy, spec, initializer)


# --- what it is made of ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SGD", "sgd", "Adagrad", "ADAGRAD", "RowwiseAdagrad", "rowwise_adagrad", "rmsProp", "adadelta",
                                  "Adam", "adamw", "AdaMax", "nadam", "FTRL", "group_ftrl", "GroupFTRL", "lion"])
def test_an_optimizer_is_one_of_the_update_rules(name):
    spec = embers.HostEmbeddingOptimizerSpec(0.25, name)
    rules = {rule.__name__.lower(): rule for rule in
             (embers.SGD, embers.Adagrad, embers.RowwiseAdagrad, embers.RMSprop, embers.Adadelta, embers.Adam, embers.AdamW,
              embers.Adamax, embers.Nadam, embers.Ftrl, embers.GroupFtrl, embers.Lion)}
    assert spec.toml() == rules[name.lower().replace("_", "")](learning_rate=0.25).toml()


def test_an_optimizer_takes_the_parameters_of_its_rule():
    spec = embers.HostEmbeddingOptimizerSpec(0.1, "sgd", momentum=0.9, clipvalue=1.0)
    assert spec.toml() == embers.SGD(0.1, momentum=0.9, clipvalue=1.0).toml()
    assert spec == embers.HostEmbeddingOptimizerSpec(0.1, "SGD", clipvalue=1.0, momentum=0.9)
    assert spec != embers.HostEmbeddingOptimizerSpec(0.1) and hash(spec) == hash(copy.deepcopy(spec))
    assert repr(spec) == 'HostEmbeddingOptimizerSpec(0.1, "SGD", momentum=0.9, clipvalue=1.0)'


@pytest.mark.parametrize("arguments, message", [
    ((0.1, "adm"), "optimizer_name 'adm' is no update rule \\(did you mean 'Adam'\\?\\): there are SGD, Adagrad"),
    ((0.1, None), "optimizer_name None is no update rule"),
    ((0,), "learning_rate is 0: it must be a number above 0"),
    ((-1.0,), "learning_rate is -1.0"),
    ((float("nan"),), "learning_rate is nan"),
    ((float("inf"),), "learning_rate is inf"),
    ((True,), "learning_rate is True"),
    (("0.1",), "learning_rate is '0.1': .* a rate that changes is schedule=embers.schedules"),
])
def test_an_optimizer_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        embers.HostEmbeddingOptimizerSpec(*arguments)


def test_a_parameter_that_the_rule_does_not_have_is_refused():
    with pytest.raises(BadInput, match="SGD has no parameter 'momentun' \\(did you mean 'momentum'\\?\\): it has .*nesterov"):
        embers.HostEmbeddingOptimizerSpec(0.1, momentun=0.9)


@pytest.mark.parametrize("dtype, name", [("float32", "float32"), (np.float32, "float32"), (np.dtype("float16"), "float16"),
                                         ("Float16", "float16"), (np.half, "float16")])
def test_a_dtype_is_numpys_or_text(dtype, name):
    assert create(dtype=dtype).dtype == name


@pytest.mark.parametrize("strategy", ["TOKEN", "token", "Encoding", "AUTO"])
def test_a_strategy_is_in_any_case(strategy):
    embedding = create(strategy=strategy)
    assert embedding.partition_strategy == strategy.upper()
    assert repr(embedding) == f"<embers host embedding 't': 10 tokens x 3, float32, {strategy.upper()}>"
    assert embedding.shape == (10, 3) and embedding.name == "t"


@pytest.mark.parametrize("arguments, message", [
    (dict(name=""), "the name of a host embedding is ''"),
    (dict(name=3), "the name of a host embedding is 3"),
    (dict(shape=10), "'t': shape is 10, but it must be \\[tokens, encoding\\]"),
    (dict(shape=[10]), "shape is \\[10\\]"),
    (dict(shape=[1, 2, 3]), "shape is \\[1, 2, 3\\]"),
    (dict(shape=[0, 3]), "'t': the number of tokens in shape is 0: it must be an integer of at least 1"),
    (dict(shape=[10, -3]), "'t': the encoding in shape is -3"),
    (dict(shape=[10, 3.5]), "'t': the encoding in shape is 3.5"),
    (dict(shape=[1 << 63, 3]), "the number of tokens in shape is 9223372036854775808: it must be at most"),
    (dict(dtype="float64"), "'t': dtype is 'float64', but it must be float32 or float16"),
    (dict(dtype=np.int32), "dtype is <class 'numpy.int32'>"),
    (dict(dtype=None), "dtype is None"),
    (dict(dtype=[3]), "dtype is \\[3\\]"),
    (dict(strategy="TOKENS"), "'t': partition_strategy is 'TOKENS' \\(did you mean 'TOKEN'\\?\\), but it must be"),
    (dict(strategy=1), 'partition_strategy is 1, .*"ENCODING" \\(each has columns of all rows\\)'),
    (dict(spec=0.1), "'t': optimizer_spec is a float: give embers.HostEmbeddingOptimizerSpec"),
    (dict(initializer=0.0), "'t': initializer is a float: give one of embers.initializers"),
])
def test_a_table_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        create(**arguments)


# --- lookups ---------------------------------------------------------------------------------------


def minibatch(job, *embeddings, records=4):
    """Within the first minibatch of a job."""
    class Within:
        def __enter__(self):
            self.scope = embers.register(job, *embeddings)
            self.scope.__enter__()
            self.loop = job.minibatches(records, records)
            return next(self.loop)

        def __exit__(self, kind, *_):
            if kind is None:
                assert next(self.loop, None) is None
            self.loop.close()
            self.scope.__exit__()
    return Within()


@pytest.mark.parametrize("ids", [np.array([3, 1, 3]), np.array([[1, 2], [2, 1]], np.int32), np.array(5, np.uint8), [[0], [9]],
                                 np.zeros((0, 2), np.int64), [], np.arange(8).reshape(2, 2, 2)[:, ::-1]])
def test_ids_have_any_shape(job, ids):
    embedding = create()
    with minibatch(job, embedding):
        rows = embedding.lookup(ids)
        assert rows.shape == (*np.shape(ids), 3) and rows.dtype == np.float32
        grads = np.random.default_rng(1).normal(size=rows.shape).astype(np.float32)
        embedding.push(ids, grads)
        first = embedding.lookup(np.arange(10), training=False)
        np.testing.assert_array_equal(first[np.asarray(ids, np.int64)], rows)
    expected = first.copy()
    np.subtract.at(expected, np.asarray(ids, np.int64), grads)
    with embedding.register(job):
        np.testing.assert_allclose(embedding.lookup(np.arange(10), training=False), expected, atol=1e-6)


def test_inference_makes_and_changes_no_rows(job):
    embedding = create(initializer=embers.initializers.ConstantValue(0.5))
    with minibatch(job, embedding) as batch:
        assert (embedding.lookup(np.arange(10), training=False) == 0.5).all()
        embedding.lookup(np.array([4]))
        batch.skip()
    with embedding.register(job):
        assert (embedding.lookup([4, 9], training=False) == 0.5).all()
        assert job.table("t").export()[0].tolist() == [4]
        with embers.connect(job.address) as reader:
            other = create()
            with other.register(reader):
                assert (other.lookup([[4, 9]], training=False) == 0.5).all()
        assert job.table("t").export()[0].tolist() == [4]


@pytest.mark.parametrize("ids, clip, message", [
    (np.array([3, 10]), [3, 9], "id 10 at \\[1\\] is outside of host embedding 't', which has 10 tokens: give ids from 0 to 9; "
                                "lookup\\(ids, clip_indices=True\\)"),
    (np.array([[1, 2], [-5, 99]]), [[1, 2], [0, 9]], "id -5 at \\[1, 0\\]"),
    (np.array(12), 9, "id 12 is outside of host embedding"),
    (np.array([2**63 + 1], np.uint64), [9], "id 9223372036854775809 at \\[0\\]"),
])
def test_an_id_outside_is_refused_or_clipped(job, ids, clip, message):
    embedding = create()
    with minibatch(job, embedding) as batch:
        for training in (True, False):
            with pytest.raises(OutOfRange, match=message) as error:
                embedding.lookup(ids, training=training)
            assert isinstance(error.value, IndexError) and isinstance(error.value, BadInput)
            np.testing.assert_array_equal(embedding.lookup(ids, clip_indices=True, training=training),
                                          embedding.lookup(np.array(clip), training=training))
        with pytest.raises(OutOfRange, match=message):
            batch.pull(t=ids)
        grads = np.ones((*ids.shape, 3), np.float32)
        with pytest.raises(OutOfRange, match=message):
            embedding.push(ids, grads)
        embedding.push(ids, grads, clip_indices=True)
    assert set(job.table("t").export()[0]) == set(np.array(clip).reshape(-1).tolist())


@pytest.mark.parametrize("ids, message", [
    (np.array([1.0]), "ids are float64, but they must be integers"),
    (np.array([True]), "ids are bool"),
    (["a"], "ids are <U1"),
    ([None], "ids are object"),
    ([[1], [1, 2]], "'t': ids are"),
    ([1 << 70], "ids are object"),
])
@pytest.mark.filterwarnings("ignore::numpy.VisibleDeprecationWarning")
def test_ids_that_are_no_integers_are_refused(job, ids, message):
    embedding = create()
    with minibatch(job, embedding) as batch:
        for call in (embedding.lookup, lambda i: embedding.lookup(i, training=False),
                     lambda i: embedding.push(i, np.ones((1, 3), np.float32)), lambda i: batch.pull(t=i)):
            with pytest.raises(BadInput, match=message):
                call(ids)
        batch.skip()


def test_rows_outside_are_not_imported(job):
    embedding = create()
    with embedding.register(job):
        table = job.table("t")
        for batch in job.minibatches(1, 1):
            for ids in ([0, 10], [-1, 3]):
                with pytest.raises(OutOfRange, match=f"id {min(ids) if min(ids) < 0 else max(ids)} at .* has 10 tokens"):
                    table.import_(np.array(ids), np.ones((2, 3), np.float32))
            table.import_(np.array([0, 9]), np.ones((2, 3), np.float32))
            batch.skip()
        assert sorted(table.export()[0].tolist()) == [0, 9]


def test_a_stray_lookup_asks_no_master():
    """Nor waits for one: there may be no job yet but this program."""
    embedding = create()
    with embers.connect("127.0.0.1:9", connect_timeout=600, timeout=600) as elsewhere, embedding.register(elsewhere):
        with pytest.raises(UsageError, match="no minibatch is under way"):
            embedding.lookup([1])
        with pytest.raises(UsageError, match="no minibatch to push to"):
            embedding.push([1], np.ones((1, 3), np.float32))


@pytest.mark.parametrize("grads, message", [
    (np.ones((2, 3)), "the gradient of host embedding 't' must be a NumPy array of float32 or float16"),
    ([[1, 2, 3], [1, 2, 3]], "must be a NumPy array"),
    (np.ones((2, 4), np.float32), "has the shape \\(2, 4\\), but \\(2, 3\\) is needed"),
])
def test_gradients_that_do_not_fit_are_refused(job, grads, message):
    embedding = create()
    with minibatch(job, embedding) as batch:
        embedding.lookup([1, 2])
        with pytest.raises(BadInput, match=message):
            embedding.push([1, 2], grads)
        with pytest.raises(UsageError, match="was not looked up"):
            embedding.push([5], np.ones((1, 3), np.float32))
        batch.skip()


@pytest.mark.parametrize("strategy", ["TOKEN", "ENCODING"])
def test_rows_of_16_bits(strategy):
    embedding = create(dtype="float16", strategy=strategy)
    with embers.local(shards=2, training=SUM, storage={"rounding": "nearest"}) as job:
        with minibatch(job, embedding):
            first = embedding.lookup(np.arange(10))
            assert first.dtype == np.float16
            grads = np.full((10, 3), 1 / 3, np.float16)
            embedding.push(np.arange(10), grads)
        with embedding.register(job):
            rows = embedding.lookup(np.arange(10), training=False)
    np.testing.assert_array_equal(rows, (first.astype(np.float32) - grads.astype(np.float32)).astype(np.float16))


def test_all_tables_of_a_minibatch_come_in_one_pull(job):
    a, b = create("a"), create("b", (4, 5))
    with minibatch(job, a, b) as batch:
        batch.pull(a=[1, 2], b=[0])
        assert a.lookup([2, 1]).shape == (2, 3) and b.lookup([0]).shape == (1, 5)
        batch.skip()


def test_lookups_see_every_update_before():
    """Of this program, though async mode applies pushes when they arrive."""
    embedding = create(initializer="zeros")
    with embers.local(shards=2, training=SUM) as job, embedding.register(job):
        for i, _ in enumerate(job.minibatches(50, 1)):
            assert (embedding.lookup([1, 2, 3]) == -i).all()
            embedding.push([1, 2, 3], np.ones((3, 3), np.float32))
    assert job.report()["max_staleness"] == 0


# --- scope -----------------------------------------------------------------------------------------


OUTSIDE = "host embedding 't' is looked up outside of its scope: do it within `with embedding.register\\(job\\):`"


def test_a_lookup_belongs_into_the_scope(job):
    embedding = create()
    for _ in range(2):
        for training in (True, False):
            with pytest.raises(NotRegistered, match=OUTSIDE):
                embedding.lookup([1], training=training)
        with pytest.raises(NotRegistered, match="'t' is pushed to outside of its scope"):
            embedding.push([1], np.ones((1, 3), np.float32))
        registration = embedding.register(job)
        with pytest.raises(NotRegistered, match=OUTSIDE):  # not entered
            embedding.lookup([1])
        with registration:
            with pytest.raises(UsageError, match="no minibatch is under way: do it in the loop over job.train\\(loader\\) or "
                                                 "job.minibatches\\(\\); lookup\\(ids, training=False\\) reads"):
                embedding.lookup([1])
            with pytest.raises(UsageError, match="this job has no rows yet"):
                embedding.lookup([1], training=False)
            with pytest.raises(UsageError, match="no minibatch to push to"):
                embedding.push([1], np.ones((1, 3), np.float32))
    assert issubclass(NotRegistered, UsageError) and issubclass(NotRegistered, embers.Error)


def test_a_scope_may_be_entered_again(job):
    embedding = create()
    with minibatch(job, embedding) as batch:
        batch.skip()
    scope = embedding.register(job)
    for _ in range(2):
        with scope:
            assert embedding.lookup([1], training=False).shape == (1, 3)
    with create().register(job):  # the same, made anew
        pass
    with embers.local() as other, minibatch(other, embedding) as batch:  # and another job
        assert embedding.lookup([1]).shape == (1, 3)
        batch.skip()


def test_a_scope_that_an_exception_leaves_is_left(job):
    embedding = create()
    with pytest.raises(ZeroDivisionError), embedding.register(job):
        1 / 0
    with pytest.raises(NotRegistered):
        embedding.lookup([1])
    with embedding.register(job):
        pass


def test_a_copy_is_not_registered(job):
    embedding = create()
    with minibatch(job, embedding) as batch:
        with pytest.raises(NotRegistered):
            copy.deepcopy(embedding).lookup([1])
        batch.skip()


def test_registration_is_not_nested(job):
    a, b, also_a = create("a"), create("b"), create("a")
    with embers.register(job, a):
        with pytest.raises(UsageError, match="'a' is registered already: leave the `with` block"), a.register(job):
            pass
        with embers.local() as other:
            with pytest.raises(UsageError, match="'a' is registered already"), a.register(other):
                pass
        with pytest.raises(UsageError, match="the job has a host embedding 'a' registered already: register each once, or create one "
                                             "with another name"), embers.register(job, b, also_a):
            pass
        with pytest.raises(NotRegistered):  # all or none
            b.lookup([1])
        with pytest.raises(UsageError, match="lookahead=2, but .* lookahead=0: register all together"), b.register(job, lookahead=2):
            pass
        with b.register(job):
            pass
    with pytest.raises(UsageError, match="registered already"), embers.register(job, a, a):
        pass
    with a.register(job):
        pass


@pytest.mark.parametrize("call, message", [
    (lambda e, job: embers.register("job", e), "a str is no job: embers.connect\\(\\) or embers.local\\(\\) gives one"),
    (lambda e, job: e.register(None), "a NoneType is no job"),
    (lambda e, job: embers.register(job), "register\\(\\) has no host embedding"),
    (lambda e, job: embers.register(job, e, "t"), "a str is no host embedding: embers.create_host_embedding\\(\\) makes one"),
    (lambda e, job: e.register(job, lookahead=-1), "lookahead is -1: it must be an integer of at least 0"),
    (lambda e, job: e.register(job, lookahead=1.5), "lookahead is 1.5"),
    (lambda e, job: e.register(job, lookahead=True), "lookahead is True"),
])
def test_what_cannot_be_registered_is_refused(job, call, message):
    with pytest.raises(BadInput, match=message):
        call(create(), job)


def test_registration_comes_before_the_first_minibatch(job):
    with minibatch(job, create("a")) as batch:
        batch.skip()
    with pytest.raises(UsageError, match="'b' comes too late: this program has joined the job with 'a'. Register all of them before "
                                         "the first minibatch"), create("b").register(job):
        pass
    with pytest.raises(UsageError, match="joined the job with <embers host embedding 'a': 10 tokens x 3.*, so .* 11 tokens x 3.* "
                                         "comes too late"), create("a", (11, 3)).register(job):
        pass


def test_a_closed_job_is_named():
    embedding = create()
    job = embers.local()
    with embedding.register(job):
        job.close()
        with pytest.raises(UsageError, match="this job was closed"):
            embedding.lookup([1])
    with pytest.raises(UsageError, match="this job was closed"), embedding.register(job):
        pass


# --- the job's table -------------------------------------------------------------------------------


def test_a_table_is_defined_once(job):
    job.table("t", dim=3)
    with create().register(job), pytest.raises(BadInput, match="table 't' is defined twice, by a host embedding and by a layer or "
                                                               "job.table\\(\\): give one of them another name"):
        next(job.minibatches(4, 4))


@pytest.mark.parametrize("other, message", [
    (dict(shape=(11, 3)), "table 't': rows 10 at the master, 11 at the worker"),
    (dict(shape=(10, 4)), "table 't': dim 3, .*at the master, table 't': dim 4, .*at the worker"),
    (dict(dtype="float16"), "table 't': dtype float32 at the master, float16 at the worker"),
    (dict(spec=embers.Adam(0.1)), "table 't': optimizer sgd .* at the master, adam"),
    (dict(initializer="zeros"), "table 't': initializer uniform at the master, zeros at the worker"),
])
def test_workers_must_have_the_same_table(job, other, message):
    with minibatch(job, create()) as batch:
        batch.skip()
        with embers.connect(job.address) as second:
            with create(**other).register(second), pytest.raises(Mismatch, match=message):
                next(second.minibatches(4, 4))


@pytest.mark.parametrize("other, message", [
    (dict(shape=(11, 3)), "the table 't' of the job has the shape \\[10, 3\\], but this host embedding \\[11, 3\\]: create it with "
                          "shape=\\[10, 3\\], or with another name"),
    (dict(shape=(10, 4)), "has the shape \\[10, 3\\], but this host embedding \\[10, 4\\]"),
    (dict(dtype="float16"), "keeps float32, but this host embedding has dtype float16: create it with dtype=\"float32\""),
])
def test_readers_must_have_the_same_table(job, other, message):
    with minibatch(job, create()) as batch:
        batch.skip()
        with embers.connect(job.address) as reader:
            embedding = create(**other)
            with embedding.register(reader), pytest.raises(Mismatch, match=message):
                embedding.lookup([1], training=False)
            unknown = create("u")
            with unknown.register(reader), pytest.raises(UnknownTable, match="no embedding table 'u'"):
                unknown.lookup([1], training=False)


def test_a_job_that_keeps_halves_does_not_take_floats():
    with embers.local(storage={"dtype": "float16"}) as job, create().register(job):
        for _ in range(2):
            with pytest.raises(Mismatch, match="the table 't' of the job keeps float16, but this host embedding has dtype float32"):
                next(job.minibatches(4, 4))


def test_servers_hold_no_halves():
    embedding = create(dtype="float16")
    with pytest.raises(BadInput, match="table 't': only backend 'memory' keeps rows as float16; memcached holds float32"):
        with embers.local(storage={"backend": "memcached", "servers": ["127.0.0.1:1"]}) as job, embedding.register(job):
            next(job.minibatches(4, 4))


def test_a_table_with_string_keys_is_none(job):
    job.table("t", dim=3, keys="bytes")
    for batch in job.minibatches(1, 1):
        batch.skip()
        with embers.connect(job.address) as reader:
            embedding = create()
            with embedding.register(reader), pytest.raises(Mismatch, match="has keys that are strings"):
                embedding.lookup([1], training=False)


@pytest.mark.parametrize("strategy, settled", [("TOKEN", "TOKEN"), ("ENCODING", "ENCODING")])
def test_the_job_says_how_it_shares_a_table(job, strategy, settled):
    embedding = create(strategy=strategy)
    assert embedding.partition is None
    with minibatch(job, embedding) as batch:
        assert embedding.partition == settled and embedding.partition_strategy == strategy
        batch.skip()
    reading = create(strategy="AUTO")  # a reader takes it as it is
    with embers.connect(job.address) as reader, reading.register(reader):
        reading.lookup([1], training=False)
        assert reading.partition == settled


@pytest.mark.parametrize("spec, why", [
    (embers.HostEmbeddingOptimizerSpec(0.1), "10 keys of 3 columns would take .* us by columns, .* us by rows"),
    (embers.HostEmbeddingOptimizerSpec(0.1, "RowwiseAdagrad"), "optimizer 'rowwise_adagrad' needs whole rows"),
])
def test_a_job_chooses_for_auto_says_why_and_trains(caplog, spec, why):
    def rows(strategy):
        embedding = create(strategy=strategy, spec=spec)
        ids = np.arange(10)
        with embers.local(shards=2, mode="sync") as job, embedding.register(job):
            for batch in job.minibatches(40, 10):
                embedding.push(ids, embedding.lookup(ids) + batch.records[:, None].astype(np.float32))
            return embedding.partition, embedding.lookup(ids, training=False)

    with caplog.at_level(logging.INFO, "embers"):
        settled, trained = rows("AUTO")
    assert settled == "TOKEN"
    assert any(re.search(f"table 't': token, because {why}", record.message) for record in caplog.records), caplog.text
    assert (trained == rows("TOKEN")[1]).all() and np.abs(trained).max() > 0.05  # beyond where rows begin


@pytest.mark.parametrize("spec, why", [
    (embers.HostEmbeddingOptimizerSpec(0.1, "RowwiseAdagrad"), "optimizer 'rowwise_adagrad' needs whole rows"),
    (embers.HostEmbeddingOptimizerSpec(0.1, "GroupFtrl"), "optimizer 'group_ftrl' needs whole rows"),
    (embers.HostEmbeddingOptimizerSpec(0.1, clipnorm=1.0), "clipnorm needs the norms of whole rows"),
])
def test_what_needs_whole_rows_does_not_go_with_encoding(spec, why):
    embedding = create(strategy="ENCODING", spec=spec)
    with embers.local(shards=2, mode="sync") as job, embedding.register(job):
        with pytest.raises(BadInput, match=f"table 't' cannot have partition = \"encoding\".*: {why}; use partition = \"token\""):
            next(job.minibatches(4, 4))
    with embers.local(shards=1, mode="sync") as job, embedding.register(job):  # nothing is split
        for batch in job.minibatches(4, 4):
            batch.skip()


def test_rows_are_set_and_exported_as_those_of_any_table(job):
    embedding = create()
    with embedding.register(job):
        rows = np.arange(30, dtype=np.float32).reshape(10, 3)
        job.table("t").import_(np.arange(10), rows)
        for batch in job.minibatches(1, 1):
            np.testing.assert_array_equal(embedding.lookup(np.arange(10)), rows)
            batch.skip()
    keys, found = job.table("t").export()
    np.testing.assert_array_equal(found[np.argsort(keys)], rows)
