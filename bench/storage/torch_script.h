#pragma once

// What a torch user would write for `embers bench storage`, a child of harness/child.h. Arguments: "local" or
// "rpc", rows, and for rpc the rank (1 is the server) and a port. Lines: "SECONDS DEPTH THREADS" -> rows/s.
namespace embers {

inline constexpr char kTorchScript[] = R"py(
import os, sys, threading, time
os.environ["GLOG_minloglevel"] = "2"
import torch

DIM, KEYS = 64, 4096
kind, rows = sys.argv[1], int(sys.argv[2])
lock = threading.Lock()

def make_table():
    global table, optimizer
    table = torch.nn.Embedding.from_pretrained(torch.full((rows, DIM), 0.5), freeze=False, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.001, eps=1e-7)
    step(torch.arange(KEYS), torch.full((KEYS, DIM), 0.01))
    for state in optimizer.state[table.weight].values():  # page faults now, not while it is timed
        if torch.is_tensor(state) and state.numel() > 1:
            state.zero_()

def step(ids, gradients):
    table.weight.grad = torch.sparse_coo_tensor(ids.unsqueeze(0), gradients, table.weight.shape)
    optimizer.step()

def pull(ids):
    return table.weight.detach().index_select(0, ids)

def push(ids, gradients):
    with lock:
        step(ids, gradients)

def set_threads(n):
    torch.set_num_threads(n)

def minibatches():
    order, at = torch.randperm(rows), 0
    while True:
        yield order[at:at + KEYS]
        at = at + KEYS if at + 2 * KEYS <= rows else 0

def train_local(seconds, depth, gradient=torch.full((KEYS, DIM), 0.01)):
    done, begin = 0, time.perf_counter()
    for ids in batches:
        table(ids).backward(gradient)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done += KEYS
        if time.perf_counter() - begin >= seconds:
            return done / (time.perf_counter() - begin)

# `depth` minibatches under way: the push of one overlaps the pull of the next.
def train_rpc(seconds, depth, gradient=torch.full((KEYS, DIM), 0.01)):
    def start():
        ids = next(batches)
        return ids, rpc.rpc_async("server", pull, (ids,))
    done, begin = 0, time.perf_counter()
    pulls, pushes = [start() for _ in range(depth)], []
    while time.perf_counter() - begin < seconds:
        ids, future = pulls.pop(0)
        future.wait()
        pushes.append(rpc.rpc_async("server", push, (ids, gradient)))
        if len(pushes) >= depth:
            pushes.pop(0).wait()
            done += KEYS
        pulls.append(start())
    elapsed = time.perf_counter() - begin
    for future in pushes:
        future.wait()
    for ids, future in pulls:
        future.wait()
    return done / elapsed

def answer(train):
    print("ready ", flush=True)
    for line in sys.stdin:
        seconds, depth, threads = line.split()
        use_threads(int(threads))
        print(train(float(seconds), int(depth)), flush=True)

if kind == "local":
    make_table()
    batches = minibatches()
    use_threads = set_threads
    answer(train_local)
else:
    import torch.distributed.rpc as rpc
    rank, port = int(sys.argv[3]), sys.argv[4]
    if rank == 1:
        make_table()
        print("ready ", flush=True)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, rpc_timeout=0,
                                              init_method="tcp://127.0.0.1:" + port)
    rpc.init_rpc("server" if rank == 1 else "client", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        batches = minibatches()
        use_threads = lambda n: rpc.rpc_sync("server", set_threads, (n,))
        answer(train_rpc)
    rpc.shutdown()
)py";

}  // namespace embers
