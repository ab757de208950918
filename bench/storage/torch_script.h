#pragma once

// What a torch user would write for `embers bench storage`, a child of harness/child.h. Arguments: "local" or
// "rpc", rows, and for rpc the rank (1 is the server) and a port. Lines: "train SECONDS DEPTH THREADS
// sparse|gathered uniform|zipf" -> rows/s; "check FIRST" and "lap N" -> numbers (checked_rows.h);
// "replayed" -> as Replay::answer() (replay.h).
namespace embers {

inline constexpr char kTorchScript[] = R"py(
import os, sys, threading, time
os.environ["GLOG_minloglevel"] = "2"
import numpy as np
import torch

DIM, KEYS, CHECKED = 64, 4096, 64
LR, EPS, BETA1, BETA2 = 0.001, 1e-7, 0.9, 0.999
kind, rows = sys.argv[1], int(sys.argv[2])
lock = threading.Lock()
order, pushed = torch.randperm(rows), []  # keys of the minibatches pushed, in order

def make_table():
    global table, optimizer
    table = torch.nn.Embedding.from_pretrained(torch.full((rows + CHECKED, DIM), 0.5), freeze=False, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=LR, eps=EPS)
    sparse(torch.arange(KEYS), torch.full((KEYS, DIM), 0.01))
    state = optimizer.state[table.weight]
    for name, value in state.items():  # page faults now, not while it is timed
        state[name] = value.zero_() if torch.is_tensor(value) else 0
    table.weight.data[:KEYS] = 0.5

def sparse(ids, gradients):
    table.weight.grad = torch.sparse_coo_tensor(ids.unsqueeze(0), gradients, table.weight.shape)
    optimizer.step()

# SparseAdam's arithmetic for ids that differ, on their rows gathered.
def gathered(ids, gradients):
    state, weight = optimizer.state[table.weight], table.weight.detach()
    state["step"] += 1
    first = state["exp_avg"].index_select(0, ids).mul_(BETA1).add_(gradients, alpha=1 - BETA1)
    second = state["exp_avg_sq"].index_select(0, ids).mul_(BETA2).addcmul_(gradients, gradients, value=1 - BETA2)
    state["exp_avg"].index_copy_(0, ids, first)
    state["exp_avg_sq"].index_copy_(0, ids, second)
    step = float(state["step"])
    rate = LR * (1 - BETA2 ** step) ** 0.5 / (1 - BETA1 ** step)
    weight.index_add_(0, ids, first.div_(second.sqrt_().add_(EPS)), alpha=-rate)

def pull(ids):
    return table.weight.detach().index_select(0, ids)

def push(ids, gradients, adam):
    with lock:
        (sparse if adam == "sparse" else gathered)(ids, gradients)

def set_threads(n):
    torch.set_num_threads(n)

def uniform():
    at = 0
    while True:
        yield order[at:at + KEYS]
        at = at + KEYS if at + 2 * KEYS <= rows else 0

# As KeyMinibatches::zipf().
by_zipf = []

def make_zipf():
    random = np.random.default_rng(5)
    for _ in range(256):
        ranks = (float(rows) ** random.random(8 * KEYS)).astype(np.int64)
        keys, first = np.unique(ranks * 2654435761 % rows, return_index=True)
        while len(keys) < KEYS:  # a small table
            more = (float(rows) ** random.random(64 * KEYS)).astype(np.int64)
            ranks = np.concatenate([ranks, more])
            keys, first = np.unique(ranks * 2654435761 % rows, return_index=True)
        by_zipf.append(torch.from_numpy(keys[np.argsort(first)][:KEYS].copy()))

def zipf():
    while True:
        yield from by_zipf

def train_local(depth, adam, batches, until, gradient=torch.full((KEYS, DIM), 0.01)):
    done, begin = 0, time.perf_counter()
    for ids in batches:
        if adam == "sparse":
            table(ids).backward(gradient)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        else:
            pull(ids)
            gathered(ids, gradient)
        pushed.append(ids)
        done += KEYS
        if time.perf_counter() >= until:
            break
    return done / (time.perf_counter() - begin)

# `depth` minibatches under way: the push of one overlaps the pull of the next.
def train_rpc(depth, adam, batches, until, gradient=torch.full((KEYS, DIM), 0.01)):
    pulls, pushes = [], []
    def start():
        ids = next(batches, None)
        if ids is not None:
            pulls.append((ids, rpc.rpc_async("server", pull, (ids,))))
    done, begin = 0, time.perf_counter()
    for _ in range(depth):
        start()
    while pulls and time.perf_counter() < until:
        ids, future = pulls.pop(0)
        future.wait()
        pushes.append(rpc.rpc_async("server", push, (ids, gradient, adam)))
        pushed.append(ids)
        if len(pushes) >= depth:
            pushes.pop(0).wait()
            done += KEYS
        start()
    for future in pushes:
        future.wait()
        done += KEYS
    elapsed = time.perf_counter() - begin
    for ids, future in pulls:
        future.wait()
    return done / elapsed

# As checked_rows.h.
def check(first, push, pull):
    ids = torch.arange(first, first + CHECKED)
    row, column = torch.meshgrid(torch.arange(CHECKED), torch.arange(DIM), indexing="ij")
    gradient = 0.01 * ((row * 7 + column * 3) % 11 - 5).float()
    for step in range(3):
        push(ids, gradient, "gathered" if step == 1 else "sparse")
        pushed.append(None)
    return " ".join("%.9g" % x for x in pull(ids).flatten().tolist())

# As checked_rows.h: the first half with SparseAdam.
def lap(count, train, pull, batches):
    minibatches = [next(batches) for _ in range(count)]
    train(1, "sparse", iter(minibatches[:count // 2]), float("inf"))
    train(1, "gathered", iter(minibatches[count // 2:]), float("inf"))
    return " ".join("%.9g" % ((0.5 - pull(ids).double()).mean().item() / LR) for ids in minibatches)

# As replay.h.
def replayed(pull):
    keys = torch.from_numpy(np.unique(torch.cat([order[:min(8, rows // KEYS) * KEYS], by_zipf[0]]).numpy()))
    place = np.full(rows, -1)
    place[keys.numpy()] = np.arange(len(keys))
    way, first, second = (np.zeros(len(keys)) for _ in range(3))  # the way in learning rates
    places = {}
    for step, ids in enumerate(pushed, 1):
        if ids is None:
            continue
        if ids.data_ptr() not in places:
            of = place[ids.numpy()]
            places[ids.data_ptr()] = of[of >= 0]
        at = places[ids.data_ptr()]
        first[at] = BETA1 * first[at] + (1 - BETA1) * 0.01
        second[at] = BETA2 * second[at] + (1 - BETA2) * 0.01 ** 2
        way[at] += (1 - BETA2 ** step) ** 0.5 / (1 - BETA1 ** step) * first[at] / (second[at] ** 0.5 + EPS)
    trained = way > 0
    assert trained.sum() >= min(8, rows // KEYS) * KEYS
    came = (0.5 - pull(keys[torch.from_numpy(trained)]).double().numpy()) / LR
    way = way[trained, None]
    off = ~(np.abs(came - way) <= 0.1 + 0.001 * way)
    return "%.9g %.9g" % (off.any(1).mean(), (way - np.nan_to_num(came, posinf=0, neginf=0)).sum() / (DIM * way.sum()))

def answer(train, push, pull):
    make_zipf()
    print("ready ", flush=True)
    batches = {"uniform": uniform(), "zipf": zipf()}
    for line in sys.stdin:
        what, *words = line.split()
        if what == "check":
            print(check(int(words[0]), push, pull), flush=True)
            continue
        if what == "replayed":
            print(replayed(pull), flush=True)
            continue
        if what == "lap":
            print(lap(int(words[0]), train, pull, batches["uniform"]), flush=True)
            continue
        seconds, depth, threads, adam, drawn = words
        use_threads(int(threads))
        print(train(int(depth), adam, batches[drawn], time.perf_counter() + float(seconds)), flush=True)

if kind == "local":
    make_table()
    use_threads = set_threads
    answer(train_local, push, pull)
else:
    import torch.distributed.rpc as rpc
    rank, port, through = int(sys.argv[3]), sys.argv[4], sys.argv[5:]
    if rank == 1:
        make_table()
        print("ready ", flush=True)
    sockets = {"_transports": ["uv"], "_channels": ["basic"]} if through == ["sockets"] else {}
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, rpc_timeout=0,
                                              init_method="tcp://127.0.0.1:" + port, **sockets)
    rpc.init_rpc("server" if rank == 1 else "client", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        use_threads = lambda n: rpc.rpc_sync("server", set_threads, (n,))
        answer(train_rpc, lambda *words: rpc.rpc_sync("server", push, words), lambda ids: rpc.rpc_sync("server", pull, (ids,)))
    rpc.shutdown()
)py";

}  // namespace embers
