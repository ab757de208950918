"""The package itself: its errors, its log, its stubs."""
import ast
import inspect
import logging
import os
import re

import embers
import pytest
from embers import _core, errors
from jobs import job, train  # noqa: F401

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_every_code_of_the_library_has_a_class_by_its_remedy():
    with open(os.path.join(TREE, "base", "errors.h"), encoding="utf-8") as file:
        codes = re.findall(r"k(\w+) = 0x([1-4])\d", file.read())
    assert len(codes) > 15
    remedies = {"1": errors.Retry, "2": errors.Refresh, "3": errors.BadInput, "4": errors.GiveUp}
    for name, remedy in codes:
        code = name[0].lower() + name[1:]
        found = errors.class_of(code)
        assert found.code == code and issubclass(found, remedies[remedy])
    assert errors.class_of("of a later version") is errors.Internal


def test_the_library_s_log_goes_through_logging(job, caplog):
    with caplog.at_level(logging.INFO, "embers"):
        train(job, job.table("user", dim=1))
        job.close()
    assert any("worker 0" in record.message and "joined" in record.message for record in caplog.records)
    assert {record.name for record in caplog.records} == {"embers"}


def test_versions_are_the_tree_s():
    with open(os.path.join(TREE, "CMakeLists.txt"), encoding="utf-8") as file:
        assert embers.__version__ == re.search(r"project\(embers VERSION ([0-9.]+)", file.read()).group(1)


def test_stubs_and_the_extension_have_the_same_names():
    with open(os.path.join(os.path.dirname(embers.__file__), "_core.pyi"), encoding="utf-8") as file:
        stub = ast.parse(file.read())

    def names(body):
        return {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("__")} | {
            n.target.id for n in body if isinstance(n, ast.AnnAssign)} - {"__version__"}

    def public(thing):
        return {n for n in dir(thing) if not n.startswith("_")}

    assert names(stub.body) == public(_core)
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            assert names(node.body) == public(getattr(_core, node.name)), node.name


def test_what_is_public_is_described():
    for name in embers.__all__:
        thing = getattr(embers, name)
        if inspect.isclass(thing) or callable(thing):
            assert inspect.getdoc(thing), name
    for owner in (embers.Job, embers.Table, embers.Parameter, embers.Batch):
        for name, member in inspect.getmembers(owner):
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                if name in ("push_parameter", "finish", "parameter", "lookup", "push", "name") and owner is embers.Batch:
                    continue  # for Table, Parameter and the loop
                assert inspect.getdoc(member), f"{owner.__name__}.{name}"


def test_another_version_than_the_master_s_is_refused(job):
    with pytest.raises(embers.Mismatch, match="embers 9.9.9, .*install"):
        _core.Session.join_as_reader(master=job.address, version="9.9.9")
