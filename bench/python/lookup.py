"""Look-ups in a running job, for `embers bench python`: the Python side of python.lookup_overhead.

    python3 lookup.py hold CHUNKS KEYS DIM      # a worker: makes CHUNKS * KEYS rows, and keeps the job running
    python3 lookup.py read                      # a reader: each line "CALLS FIRST STEP" of standard input looks
                                                # KEYS keys up, CALLS times, and is answered with the seconds of each;
                                                # "check" with a sum of all rows

Keys of call i are those from (FIRST + i * STEP) % CHUNKS * KEYS on."""
import json
import sys
import time

import numpy as np

import embers


def hold(chunks, keys, dim):
    with embers.connect() as job:
        table = job.table("rows", dim=dim)
        done = 0
        for batch in job.minibatches(chunks + 1, 1, shuffle=False):
            if done == chunks:
                print("ready ", flush=True)
                sys.stdin.readline()
                batch.skip()
                break
            some = np.arange(done * keys, (done + 1) * keys)
            table.lookup(some)
            table.push(some, np.ones((keys, dim), np.float32))
            done += 1


def sum_of_bits(rows):
    """Of all floats, each times its place, modulo 2^64."""
    bits = rows.reshape(-1).view(np.uint32).astype(np.uint64)
    return int((bits * np.arange(1, len(bits) + 1, dtype=np.uint64)).sum(dtype=np.uint64))


def read(chunks, keys):
    with embers.connect() as job:
        table = job.table("rows")
        lists = [np.arange(i * keys, (i + 1) * keys) for i in range(chunks)]
        print("ready ", flush=True)
        for line in sys.stdin:
            if line == "check\n":
                print(sum_of_bits(np.concatenate([table.lookup(keys_of_chunk) for keys_of_chunk in lists])), flush=True)
                continue
            calls, first, step = map(int, line.split())
            seconds, total = [], 0.0
            for i in range(calls):
                begin = time.perf_counter()
                rows = table.lookup(lists[(first + i * step) % chunks])
                seconds.append(time.perf_counter() - begin)
                total += float(rows[0, 0]) + float(rows[-1, -1])
            print(json.dumps({"seconds": seconds, "sum": total}), flush=True)


if __name__ == "__main__":
    role, numbers = sys.argv[1], [int(n) for n in sys.argv[2:]]
    {"hold": hold, "read": read}[role](*numbers)
