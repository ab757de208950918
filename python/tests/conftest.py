import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
try:
    import embers  # built, and installed or in PYTHONPATH
except ImportError:
    # The parts above the extension are tested over a fake of it.
    core = types.ModuleType("embers._core")
    core.__version__, core.unique, core.unique_strings = "0", None, None
    core.drain_log, core.fork_generation, core.end_all = lambda: None, lambda: 0, lambda timeout: True
    sys.modules["embers._core"] = core
    sys.path.insert(0, os.path.dirname(HERE))
    import embers
    import fake_core

    for name in ("unique", "unique_strings", "UniqueColumns", "permuted", "gather_columns", "add_columns", "add_rows",
                 "pair_products", "pair_products_gradient", "second_order", "second_order_gradient", "tune_malloc", "TableSpec",
                 "ParameterSpec"):
        setattr(core, name, getattr(fake_core, name))
    collect_ignore = [f"test_{name}.py" for name in ("checkpoints", "ends", "host_embedding", "job_file", "keys", "launch", "numpy_level", "package", "plan", "processes", "replicas", "rules", "torch_examples", "torch_host_embedding", "torch_host_replicas", "torch_jobs")]

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    collect_ignore_glob = ["test_torch*", "test_loop*"]
