"""Update rules, initializers, constraints and schedules: names, parameters and defaults are the library's."""
import dataclasses
import functools
import json
import os
import re
import subprocess

import embers
import pytest
from embers import constraints, initializers, optimizers, schedules
from embers.toml import text_of

PROGRAM = os.environ.get("EMBERS_PROGRAM", "")
EVERYWHERE = {"schedule", "clipvalue", "clipnorm", "global_clipnorm", "warmup_steps", "warmup_target", "initial_learning_rate"}


def classes(module, base):
    return [c for c in vars(module).values()
            if isinstance(c, type) and issubclass(c, base) and c is not base and c.__module__ == module.__name__]


CASES = []  # of the whole file: the program is started once, since it takes a second to load libtorch


def case(**fields):
    """Its number, for ask()."""
    CASES.append(fields)
    return len(CASES) - 1


@functools.lru_cache(maxsize=None)
def answers():
    done = subprocess.run([PROGRAM, "op", "--lines"], input="".join(json.dumps(c) + "\n" for c in CASES), text=True,
                          stdout=subprocess.PIPE, check=False)
    return [json.loads(answer) for answer in done.stdout.splitlines()]


def ask(*numbers):
    if not PROGRAM:
        pytest.skip("EMBERS_PROGRAM does not say where the program embers is")
    return [answers()[number] for number in numbers]


def known(answer):
    return set(re.search(r"known: ([\w, ]+)", answer["error"]).group(1).split(", "))


def params(value):
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)
            if f.name not in EVERYWHERE and getattr(value, f.name) is not None}


STEPS = [{"keys": ["a"], "grads": [[0.5, -2]]}, {"keys": ["a"], "grads": [[0.1, 1]]}]
OPTIMIZER = {"op": "optimizer", "rows": {"a": [0.3, -0.7]}, "steps": STEPS}
INITIALIZER = {"op": "initializer", "seed": 1, "table": "t", "keys": [1], "dim": 3}
SCHEDULE = {"op": "schedule", "steps": [0, 3, 7, 40]}


def rule_cases(rule):
    one = {**OPTIMIZER, "name": rule.toml_name}
    return case(**one), case(**one, params=params(rule())), case(**one, params={"zzz": 1})


def initializer_cases(initializer):
    one = {**INITIALIZER, "name": initializer.toml_name}
    return case(**one), case(**one, params=params(initializer()))


def schedule_cases(schedule):
    given = params(schedule)
    given.update({n: getattr(schedule, n) for n in ("warmup_steps", "warmup_target") if getattr(schedule, n, None) is not None})
    if not isinstance(schedule, schedules.Piecewise):
        given["initial_learning_rate"] = 0.1
    keep = {f.name for f in dataclasses.fields(schedule) if f.default is dataclasses.MISSING} | {"initial_learning_rate"}
    one = {**SCHEDULE, "name": schedule.toml_name}
    return case(**one, params=given), case(**one, params={k: v for k, v in given.items() if k in keep})


RULES = {rule: rule_cases(rule) for rule in classes(optimizers, optimizers.UpdateRule)}
INITIALIZERS = {i: initializer_cases(i) for i in classes(initializers, initializers.Initializer)}
SCHEDULES = {s: schedule_cases(s) for s in (
    schedules.Constant(), schedules.Exponential(10, 0.5), schedules.InverseTime(10, 0.5), schedules.Polynomial(10),
    schedules.Cosine(10), schedules.CosineRestarts(10), schedules.Piecewise((3,), (0.1, 0.2)), schedules.Warmup(3, 0.5))}
UNKNOWN = [(case(**one, name="zzz", params={}), {c.toml_name for c in classes(module, base)}, aliases)
           for one, module, base, aliases in (
               (OPTIMIZER, optimizers, optimizers.UpdateRule, {"assign"}),
               (INITIALIZER, initializers, initializers.Initializer, {"random_uniform", "random_normal"}),
               (SCHEDULE, schedules, schedules.Schedule, set()))]


@pytest.mark.parametrize("number, names, aliases", UNKNOWN)
def test_there_is_a_class_for_every_name(number, names, aliases):
    assert known(ask(number)[0]) - aliases == names


@pytest.mark.parametrize("rule", RULES)
def test_defaults_of_rules_are_the_library_s(rule):
    plain, full, wrong = ask(*RULES[rule])
    assert plain["trace"] == full["trace"]
    assert known(wrong) - EVERYWHERE == set(params(rule()))


@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_defaults_of_initializers_are_the_library_s(initializer):
    plain, full = ask(*INITIALIZERS[initializer])
    assert plain["rows"] == full["rows"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_are_the_library_s(schedule):
    full, least = ask(*SCHEDULES[schedule])
    assert full["learning_rates"] == least["learning_rates"]


def test_toml_is_what_a_job_file_has():
    rule = embers.Adam(1e-3, schedule=schedules.Cosine(100, warmup_steps=5), clipvalue=2.0)
    assert rule.toml() == ('{ name = "adam", learning_rate = 0.001, beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-07, amsgrad = false, '
                           'weight_decay = 0.0, schedule = { name = "cosine", decay_steps = 100, alpha = 0.0, warmup_steps = 5 }, '
                           'clipvalue = 2.0 }')
    assert text_of({"a b": [1, "x\"y", True]}) == '{ "a b" = [1, "x\\"y", true] }'
    with pytest.raises(embers.BadInput, match="SGD\\(learning_rate\\) is nan"):
        embers.SGD(float("nan")).toml()
    with pytest.raises(embers.BadInput, match="learning_rate.* is a object"):
        embers.SGD(object()).toml()


@pytest.mark.parametrize("value", [*(c() for c in classes(constraints, constraints.Constraint)),
                                   *(c() for c in classes(initializers, initializers.Initializer))])
def test_a_job_takes_them(value):
    is_constraint = isinstance(value, constraints.Constraint)
    with embers.local() as job:
        job.table("user", dim=2, **{"constraint" if is_constraint else "initializer": value})
        for batch in job.minibatches(1, 1):
            batch.pull(user=[1])
            batch.skip()
