#!/usr/bin/env python3
"""usage: tests/arrows.py ROOT | --self-test

The include arrows: which folders of the tree each folder may include, directly or through other headers, and which folders may
see which library. Prints each violation as file:line and fails if there is any."""
import os
import re
import sys
import tempfile

# folder: folders that it may include besides itself, with those below them.
ARROWS = """
base:
base/floats:          base
base/files:           base
base/log:             base
schema:               base
schema/messages:      base schema
job/document:         base
job/sections:         base schema job/document
job/features:         base schema job/document job/sections
job:                  base schema job
data:                 base schema job
storage/rows:         base schema
storage/update_rules: base schema storage/rows
storage/initializers: base schema
storage/memory:       base schema storage/rows
storage/journal:      base schema
storage/external:     base schema storage/rows storage/memory storage/journal
storage/checkpoint:   base schema storage/rows storage/update_rules
storage:              base schema storage
model/lookup/kernels: base
model/lookup:         base schema job data model/lookup/kernels
model/lookup/operators: base schema model/lookup
model/layers:         base schema job data model/lookup
model/columns:        base schema job data model/lookup model/layers
model/zoo:            base schema job data model/lookup model/layers model/columns
model:                base schema job data model
actors:               base schema
actors/door:          base schema actors
actors/frames:        base schema actors actors/door
actors/shared_memory: base schema
actors/transport/addresses: base actors/door
actors/transport/connections: base schema actors actors/door actors/frames actors/shared_memory
actors/transport:     base schema actors actors/door actors/frames actors/shared_memory
actors/probe:         base schema actors actors/transport
actors/routing:       base schema actors actors/transport storage
actors/owner:         base schema actors storage
master/state/leases:  base job storage/update_rules
master/state/progress: base
master/state/events:  base schema job actors/owner master/state/leases
master/state:         base schema job storage/update_rules actors/owner
master:               base schema job data storage actors master
client/pipeline:      base schema job storage actors
client/joining:       base schema job actors client/pipeline
client/owner:         base schema job storage actors client/pipeline client/joining
client:               base schema job storage actors
worker:               base schema job data model actors storage client
cuda:
cuda/cpu:             base cuda
cuda/index:           cuda
apps/command_line:    base job
apps/process:         base schema job storage actors client apps/command_line
apps/shard:           base schema job storage actors client apps/command_line apps/process
apps/control:         base schema client apps/command_line apps/process
apps/top:             base schema client apps/command_line apps/process apps/control
apps/launch/members:  base job actors/transport/addresses apps/command_line apps/process
apps/launch/slurm/commands: base apps/command_line apps/process apps/launch/members
apps/launch/processes: base apps/command_line apps/process apps/launch/members apps/launch/slurm/commands
apps/launch/slurm:    base schema job client apps/command_line apps/process apps/launch/members apps/launch/processes
apps/launch:          base schema job storage actors client apps/command_line apps/process
apps/doctor:          base schema job actors client apps/command_line apps/process
apps/op:              base schema storage model apps/command_line
apps/plan:            base schema job client master apps/process
apps/compute:         base schema job data storage model actors master client worker apps/command_line apps/process apps/shard apps/op apps/plan
apps:                 base schema data apps/command_line apps/process apps/shard apps/control apps/top apps/launch apps/doctor
bench/peers:          base schema job data model
bench/harness:        base schema model bench/peers apps/command_line apps/process
bench/engine:         base schema storage bench/harness
bench/models:         base schema job data storage model bench/harness bench/peers apps/process
bench/wire:           base schema storage actors client bench/harness apps/process
bench/control:        base schema job data model actors client bench/harness apps/process
bench/storage:        base schema storage model actors bench/harness bench/peers bench/wire apps/process
bench/hosts:          base data apps/process bench/harness bench/models
bench/partition:      base schema job client apps/command_line apps/plan apps/process bench/harness bench/hosts
bench/python:         base schema job data client apps/command_line apps/process bench/harness bench/models bench/peers
bench:                base schema model apps/command_line apps/process bench
python/src/calls:     base
python/src/values:    base schema model/lookup python/src/calls
python/src/session:   base client python/src/calls python/src/values
python/src/jobs:      base job data storage actors master client apps/process apps/shard python/src/calls python/src/values
python/src:           base schema job data storage actors master client model/lookup apps/command_line apps/process apps/shard
"""

# library: its headers | files that may include them themselves | files that may see them through others' headers
LIBRARIES = {
    "CAF": (r"caf/", r"(actors|master(?!/state/)|client|worker|apps|bench)/", r"(actors|master(?!/state/)|client|worker|apps|bench|python/src/jobs/cluster)"),
    "libtorch": (r"(torch|ATen|c10)/", r"(model|bench/peers)/", r"(model|bench|apps/op|apps/compute)/"),
    "Asio": (r"boost/asio", r"(actors/transport|apps/process|apps/top|apps/launch|bench/wire)/", r"(actors|master|client|worker|apps|bench|python/src/jobs/cluster)"),
    "Cap'n Proto": (r"(capnp|kj)/", r"schema/", r"(schema|actors|master|client|worker|apps|bench|python/src/jobs/cluster)"),
    "TOML": (r"toml", r"job/", r"job/"),
    "libmemcached": (r"libmemcached/", r"storage/external/memcached_server[.]cc$", r"$."),
    "CUDA": (r"(cuda_runtime|cuda_fp16|cooperative_groups)", r"cuda/(gpu_lanes|device)[.]h$", r"cuda/"),
    "OpenSSL": (r"openssl/", r"actors/door/secret.cc$", r"$."),
    "hiredis": (r"hiredis/", r"storage/external/redis_server[.]cc$", r"$."),
    "pybind11": (r"pybind11/", r"python/src/", r"python/src/"),
    "libsasl2": (r"sasl/", r"apps/process/sasl_passwords[.]cc$", r"$."),
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]*)')


def arrows():
    allowed = {}
    for line in ARROWS.strip().splitlines():
        folder, others = line.split(":")
        allowed[folder] = [folder] + others.split()
    return allowed


def below(folder, others):
    return any(folder == other or folder.startswith(other + "/") for other in others)


def check(root):
    allowed = arrows()
    tops = {folder.split("/")[0] for folder in allowed}
    includes = {}  # file: [(line, quoted, name)]
    for top in sorted(tops):
        for directory, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if not name.endswith((".h", ".cc", ".inc")):
                    continue
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as file:
                    found = [(n, m.group(1) == '"', m.group(2))
                             for n, m in ((n, INCLUDE.match(line)) for n, line in enumerate(file, 1)) if m]
                includes[os.path.relpath(path, root)] = found
    violations = []

    def violation(file, line, what):
        violations.append((file, line, what))

    reached_by = {}

    # Libraries and folders that a file's includes lead to, each with the chain of headers to it.
    def reached(file):
        if file in reached_by:
            return reached_by[file]
        result = reached_by[file] = {}
        for _, _, name in includes.get(file, []):
            if name in includes:
                result.setdefault("folder " + os.path.dirname(name), name)
                for what, chain in reached(name).items():
                    result.setdefault(what, f"{name}, {chain}")
            for library, (headers, _, _) in LIBRARIES.items():
                if re.match(headers, name):
                    result.setdefault(library, name)
        return result

    closure = {}

    def closed(folder):  # what a folder may reach through folders that it may include
        if folder not in closure:
            closure[folder] = set(allowed[folder])
            for other in allowed[folder][1:]:
                for known in allowed:
                    if known != folder and below(known, [other]):
                        closure[folder] |= closed(known)
        return closure[folder]

    for file, lines in sorted(includes.items()):
        mine = os.path.dirname(file)
        if mine not in allowed:
            mine = next((f for f in sorted(allowed, key=len, reverse=True) if below(mine, [f])), mine.split("/")[0])
        for line, quoted, name in lines:
            theirs = os.path.dirname(name)
            if name.split("/")[0] in tops:
                if not below(theirs, allowed[mine]):
                    violation(file, line, f"{mine}/ may not include {theirs}/: {name}")
            elif quoted:
                violation(file, line, f'"{name}" is not a path from the root of the tree; write <...> for other libraries')
            for library, (headers, owners, seers) in LIBRARIES.items():
                if re.match(headers, name) and not re.match(owners, file):
                    violation(file, line, f"{library} has no place here: {name}")
                elif name in includes:
                    chain = reached(name).get(library)
                    if chain and not re.match(owners, file) and not re.match(seers, file):
                        violation(file, line, f"{library} has no place here, but comes with {name}, {chain}")
            if name in includes:
                for what, chain in reached(name).items():
                    if what.startswith("folder ") and below(theirs, allowed[mine]) and not below(what[7:], closed(mine)):
                        violation(file, line, f"{mine}/ may not include {what[7:]}/, but does through {name}, {chain}")
    for file, line, what in violations:
        print(f"{file}:{line}: {what}")
    return not violations


def self_test():
    """Each planted line must be found, with its place, among lines that are right."""
    cases = [
        ("storage/a.cc", '#include "data/job.h"', "storage/ may not include data/"),
        ("storage/rows/a.cc", '#include "storage/memory/pages.h"', "storage/rows/ may not include storage/memory/"),
        ("base/a.h", '#include "schema/ids.h"', "base/ may not include schema/"),
        ("schema/a.h", '#include "storage/store.h"', "schema/ may not include storage/"),
        ("model/a.h", "# include <actors/route.h>", "model/ may not include actors/"),
        ("model/layers/a.h", '#include "model/step.h"', "model/layers/ may not include model/"),
        ("master/a.h", '#include "worker/worker.h"', "master/ may not include worker/"),
        ("worker/sub/a.cc", '  #include "master/master.h"', "worker/ may not include master/"),
        ("storage/a.cc", '#include "store.h"', '"store.h" is not a path'),
        ("data/a.h", "#include <caf/all.hpp>", "CAF has no place"),
        ("master/state/a.h", "#include <caf/all.hpp>", "CAF has no place"),
        ("master/a.h", "#include <caf/all.hpp>", ""),
        ("worker/a.cc", "#include <torch/types.h>", "libtorch has no place"),
        ("apps/a.cc", "#include <ATen/Parallel.h>", "libtorch has no place"),
        ("worker/a.cc", '#include "model/seen.h"', "libtorch has no place here, but comes with model/seen.h, torch/"),
        ("worker/a.cc", '#include "model/far.h"', "libtorch has no place here, but comes with model/far.h, model/seen.h, t"),
        ("actors/a.cc", "#include <boost/asio/post.hpp>", "Asio has no place"),
        ("actors/transport.cc", "#include <boost/asio.hpp>", "Asio has no place"),
        ("storage/a.cc", "#include <capnp/message.h>", "Cap'n Proto has no place"),
        ("storage/a.cc", "#include <libmemcached/memcached.h>", "libmemcached has no place"),
        ("cuda/cpu/lanes.cc", "#include <cuda_runtime.h>", "CUDA has no place"),
        ("cuda/cpu/a.cc", '#include "base/philox.h"', ""),
        ("actors/a.cc", "#include <hiredis/hiredis.h>", "hiredis has no place"),
        ("actors/transport/server.cc", "#include <openssl/hmac.h>", "OpenSSL has no place"),
        ("apps/a.cc", "#include <toml++/toml.h>", "TOML has no place"),
        ("apps/compute/a.cc", '#include "worker/worker.h"', ""),
        ("client/a.cc", '#include "model/far.h"', "client/ may not include model/"),
        ("client/a.cc", '#include "data/minibatch.h"', "client/ may not include data/"),
        ("worker/a.cc", '#include "client/work.h"', ""),
        ("apps/a.cc", '#include "model/step.h"', "apps/ may not include model/"),
        ("apps/shard/a.cc", '#include "model/seen.h"', "apps/shard/ may not include model/"),
        ("actors/transport/a.cc", "#include <boost/asio.hpp>", ""),
        ("worker/a.h", "#include <caf/all.hpp>", ""),
        ("model/a.h", "#include <torch/types.h>", ""),
        ("storage/a.cc", '#include "storage/memory/pages.h"', ""),
        ("storage/a.cc", '// #include "data/job.h"', ""),
    ]
    failures = 0
    for file, include, expected in cases:
        with tempfile.TemporaryDirectory() as tree:
            planted = {
                "model/seen.h": "#include <torch/types.h>\n",
                "model/far.h": '#include "model/seen.h"\n',
                file: f'#include <vector>\n#include "base/errors.h"\n{include}\n',
            }
            for path, text in planted.items():
                path = os.path.join(tree, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
            found = os.popen(f"'{sys.executable}' '{os.path.abspath(__file__)}' '{tree}'").read().strip()
        wanted = f"{file}:3: {expected}" if expected else ""
        if not (found.startswith(wanted) if expected else found == ""):
            print(f"self-test: '{include}' in {file} gave '{found}', expected '{wanted}'")
            failures += 1
    return failures == 0


if len(sys.argv) != 2:
    sys.exit(__doc__)
sys.exit(0 if (self_test() if sys.argv[1] == "--self-test" else check(sys.argv[1])) else 1)
