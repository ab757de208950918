#!/usr/bin/env python3
"""Writes optimizers/*.json: make_optimizer_cases.py [DIRECTORY]. Needs python3-torch (Debian's 1.13); the tests do not.

Every optimizer makes the same 100 sparse steps, each on a few of the rows and with a different learning rate. Optimizers that
torch.optim has are run by torch.optim in float64: SparseAdam on the whole table, the rest with each row as a parameter of its
own, which makes a step only when it has a gradient, but counts the model's steps. Other optimizers, clipping and schedules
follow their published formulas, a step at a time in float64."""
import json
import math
import os
import random
import sys

import torch

ROWS, DIM, STEPS = 6, 5, 100
CHECKED = (1, 2, 10, 50, 100)  # steps after which rows are compared

rng = random.Random(11)
start = {f"k{r}": [rng.randint(-16, 16) / 8 for _ in range(DIM)] for r in range(ROWS)}


def make_step(t):
    # k5 comes late and seldom; now and then the gradient of a row is zero.
    keys = [k for k in start if rng.random() < 0.4 and (k != "k5" or t % 17 == 16)] or ["k0"]
    rng.shuffle(keys)
    grads = [[0.0] * DIM if rng.random() < 0.05 else [rng.randint(-16, 16) / 8 for _ in range(DIM)] for _ in keys]
    return {"keys": keys, "grads": grads, "lr": rng.randint(2, 40) / 1024}


steps = [make_step(t) for t in range(STEPS)]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def snapshots(step_rows):
    """step_rows(t, step) returns all rows after step t (from 1)."""
    found = []
    for t, step in enumerate(steps, 1):
        rows = step_rows(t, step)
        if t in CHECKED:
            found.append({"step": t, "rows": {k: [float(x) for x in v] for k, v in rows.items()}})
    return found


# --- torch.optim -------------------------------------------------------------------------------------------------

STATE = {  # what torch makes at a parameter's first step
    torch.optim.Adam: ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    torch.optim.AdamW: ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    torch.optim.Adamax: ("exp_avg", "exp_inf"),
}


def by_torch(kind, **options):
    rows = {k: torch.nn.Parameter(tensor(v)) for k, v in start.items()}
    optimizers = {k: kind([p], lr=1.0, **options) for k, p in rows.items()}
    for k, p in rows.items():
        for name in STATE.get(kind, ()):
            optimizers[k].state[p][name] = torch.zeros_like(p)

    def step_rows(t, step):
        for k, g in zip(step["keys"], step["grads"]):
            rows[k].grad = tensor(g)
            optimizers[k].param_groups[0]["lr"] = step["lr"]
            if kind in STATE:
                optimizers[k].state[rows[k]]["step"] = torch.tensor(float(t - 1))
            optimizers[k].step()
        return rows

    return snapshots(step_rows)


def by_sparse_adam(**options):
    keys = list(start)
    table = torch.nn.Parameter(tensor(list(start.values())))
    optimizer = torch.optim.SparseAdam([table], lr=1.0, **options)

    def step_rows(t, step):
        table.grad = torch.sparse_coo_tensor([[keys.index(k) for k in step["keys"]]], tensor(step["grads"]), table.shape)
        optimizer.param_groups[0]["lr"] = step["lr"]
        optimizer.step()
        return dict(zip(keys, table.detach()))

    return snapshots(step_rows)


# --- published formulas ------------------------------------------------------------------------------------------


def by_formula(row_step, change_gradients=None):
    """row_step(w, g, state, t, lr) returns the new row; state is a dict of the row's own."""
    rows, states = {k: list(v) for k, v in start.items()}, {k: {} for k in start}

    def step_rows(t, step):
        grads = dict(zip(step["keys"], step["grads"]))
        for k, g in (change_gradients(grads) if change_gradients else grads).items():
            rows[k] = row_step(rows[k], g, states[k], t, step["lr"])
        return rows

    return snapshots(step_rows)


def sgd(w, g, state, t, lr):
    return [a - lr * b for a, b in zip(w, g)]


def rowwise_adagrad(initial, eps, weight_decay=0.0):
    """torchrec.optim.RowWiseAdagrad: state_sum += mean(grad^2); w -= lr * grad / (sqrt(state_sum) + eps)."""
    def step(w, g, state, t, lr):
        g = [b + weight_decay * a for a, b in zip(w, g)]
        state["sum"] = state.get("sum", initial) + sum(b * b for b in g) / DIM
        return [a - lr * b / (math.sqrt(state["sum"]) + eps) for a, b in zip(w, g)]
    return step


def ftrl_sums(w, g, state, lr, power, initial, shrinkage):
    n, z = state.get("n", [initial] * DIM), state.get("z", [0.0] * DIM)
    new = [a + b * b for a, b in zip(n, g)]
    z = [c + b + 2 * shrinkage * a - (e**-power - d**-power) / lr * a for a, b, c, d, e in zip(w, g, z, n, new)]
    state.update(n=new, z=z)
    return new, z


def ftrl(power=-0.5, initial=0.1, l1=0.0, l2=0.0, shrinkage=0.0, beta=0.0):
    """tf.keras.optimizers.Ftrl, update_step."""
    def step(w, g, state, t, lr):
        n, z = ftrl_sums(w, g, state, lr, power, initial, shrinkage)
        return [(max(min(c, l1), -l1) - c) / (a**-power / lr + 2 * (l2 + beta / (2 * lr))) for a, c in zip(n, z)]
    return step


def group_ftrl(power=-0.5, initial=0.1, l1=0.0, l2=0.0):
    """DeepRec, KvResourceSparseApplyFtrl: w = z (l1 - |z|) / ((n^-power / lr + 2 l2) |z|) where |z| > l1, else 0."""
    def step(w, g, state, t, lr):
        n, z = ftrl_sums(w, g, state, lr, power, initial, 0.0)
        norm = math.sqrt(sum(c * c for c in z))
        return [(l1 - norm) / ((a**-power / lr + 2 * l2) * norm) * c if norm > l1 else 0.0 for a, c in zip(n, z)]
    return step


def nadam(b1=0.9, b2=0.999, eps=1e-7):
    """tf.keras.optimizers.Nadam, update_step."""
    def u(t):
        return b1 * (1 - 0.5 * 0.96**t)

    def step(w, g, state, t, lr):
        product = math.prod(u(i) for i in range(1, t + 1))
        m, v = state.get("m", [0.0] * DIM), state.get("v", [0.0] * DIM)
        m = [a + (b - a) * (1 - b1) for a, b in zip(m, g)]
        v = [a + (b * b - a) * (1 - b2) for a, b in zip(v, g)]
        state.update(m=m, v=v)
        m_hat = [u(t + 1) * a / (1 - product * u(t + 1)) + (1 - u(t)) * b / (1 - product) for a, b in zip(m, g)]
        return [x - lr * a / (math.sqrt(b / (1 - b2**t)) + eps) for x, a, b in zip(w, m_hat, v)]
    return step


def lion(b1=0.9, b2=0.99, weight_decay=0.0):
    """Chen et al. 2023, Algorithm 2."""
    def step(w, g, state, t, lr):
        m = state.get("m", [0.0] * DIM)
        c = [b1 * a + (1 - b1) * b for a, b in zip(m, g)]
        state["m"] = [b2 * a + (1 - b2) * b for a, b in zip(m, g)]
        return [x - lr * ((a > 0) - (a < 0) + weight_decay * x) for x, a in zip(w, c)]
    return step


def clip_by_value(limit):
    return lambda grads: {k: [max(-limit, min(limit, x)) for x in g] for k, g in grads.items()}


def clip_by_norm(limit):
    """tf.clip_by_norm of the IndexedSlices that the table's gradient is; of one variable also the global norm."""
    def clip(grads):
        norm = math.sqrt(sum(x * x for g in grads.values() for x in g))
        return {k: [x * limit / max(norm, limit) for x in g] for k, g in grads.items()}
    return clip


TORCH = "torch.optim 1.13, "
KERAS = "tf.keras.optimizers, formula of "


def optimizer_cases():
    cases = []

    def add(optimizer, params, source, expect):
        cases.append({"optimizer": optimizer, "params": params, "source": source, "expect": expect})

    o = torch.optim
    add("sgd", {}, TORCH + "SGD", by_torch(o.SGD))
    add("sgd", {"weight_decay": 0.1}, TORCH + "SGD", by_torch(o.SGD, weight_decay=0.1))
    add("sgd", {"momentum": 0.9}, TORCH + "SGD", by_torch(o.SGD, momentum=0.9))
    add("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05}, TORCH + "SGD",
        by_torch(o.SGD, momentum=0.9, nesterov=True, weight_decay=0.05))
    add("adagrad", {}, TORCH + "Adagrad", by_torch(o.Adagrad, initial_accumulator_value=0.1, eps=1e-7))
    add("adagrad", {"initial_accumulator_value": 0.0, "epsilon": 1e-3, "weight_decay": 0.1}, TORCH + "Adagrad",
        by_torch(o.Adagrad, eps=1e-3, weight_decay=0.1))
    add("rmsprop", {}, TORCH + "RMSprop", by_torch(o.RMSprop, alpha=0.9, eps=1e-7))
    add("rmsprop", {"rho": 0.99, "centered": True, "weight_decay": 0.1}, TORCH + "RMSprop",
        by_torch(o.RMSprop, alpha=0.99, eps=1e-7, centered=True, weight_decay=0.1))
    add("rmsprop", {"momentum": 0.5}, TORCH + "RMSprop", by_torch(o.RMSprop, alpha=0.9, eps=1e-7, momentum=0.5))
    add("rmsprop", {"momentum": 0.5, "centered": True, "epsilon": 1e-3}, TORCH + "RMSprop",
        by_torch(o.RMSprop, alpha=0.9, eps=1e-3, momentum=0.5, centered=True))
    add("adadelta", {}, TORCH + "Adadelta", by_torch(o.Adadelta, rho=0.95, eps=1e-7))
    add("adadelta", {"rho": 0.5, "epsilon": 1e-2, "weight_decay": 0.1}, TORCH + "Adadelta",
        by_torch(o.Adadelta, rho=0.5, eps=1e-2, weight_decay=0.1))
    add("adam", {}, TORCH + "SparseAdam", by_sparse_adam(eps=1e-7))
    add("adam", {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 1e-2}, TORCH + "SparseAdam",
        by_sparse_adam(betas=(0.5, 0.75), eps=1e-2))
    add("adam", {"amsgrad": True, "epsilon": 1e-2}, TORCH + "Adam", by_torch(o.Adam, amsgrad=True, eps=1e-2))
    add("adam", {"weight_decay": 0.1}, TORCH + "Adam", by_torch(o.Adam, weight_decay=0.1, eps=1e-7))
    add("adamw", {}, TORCH + "AdamW", by_torch(o.AdamW, weight_decay=0.004, eps=1e-7))
    add("adamw", {"amsgrad": True, "weight_decay": 0.1, "epsilon": 1e-2}, TORCH + "AdamW",
        by_torch(o.AdamW, amsgrad=True, weight_decay=0.1, eps=1e-2))
    add("adamax", {}, TORCH + "Adamax", by_torch(o.Adamax, eps=1e-7))
    add("adamax", {"beta_2": 0.9, "epsilon": 1e-2, "weight_decay": 0.1}, TORCH + "Adamax",
        by_torch(o.Adamax, betas=(0.9, 0.9), eps=1e-2, weight_decay=0.1))
    add("nadam", {}, KERAS + "Nadam", by_formula(nadam()))
    add("nadam", {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-2}, KERAS + "Nadam", by_formula(nadam(0.8, 0.9, 1e-2)))
    add("ftrl", {}, KERAS + "Ftrl", by_formula(ftrl()))
    add("ftrl", {"l1_regularization_strength": 0.5, "l2_regularization_strength": 0.25,
                 "l2_shrinkage_regularization_strength": 0.125, "beta": 0.5}, KERAS + "Ftrl",
        by_formula(ftrl(l1=0.5, l2=0.25, shrinkage=0.125, beta=0.5)))
    add("ftrl", {"learning_rate_power": -0.75, "initial_accumulator_value": 0.5}, KERAS + "Ftrl",
        by_formula(ftrl(power=-0.75, initial=0.5)))
    add("rowwise_adagrad", {}, "TorchRec, formula of RowWiseAdagrad", by_formula(rowwise_adagrad(0.0, 1e-10)))
    add("rowwise_adagrad", {"initial_accumulator_value": 0.5, "epsilon": 1e-3, "weight_decay": 0.1},
        "TorchRec, formula of RowWiseAdagrad", by_formula(rowwise_adagrad(0.5, 1e-3, 0.1)))
    add("group_ftrl", {}, "DeepRec, formula of KvResourceSparseApplyFtrl", by_formula(group_ftrl()))
    add("group_ftrl", {"l1_regularization_strength": 8.0, "l2_regularization_strength": 0.25},
        "DeepRec, formula of KvResourceSparseApplyFtrl", by_formula(group_ftrl(l1=8.0, l2=0.25)))
    add("group_ftrl", {"learning_rate_power": -0.75}, "DeepRec, formula of KvResourceSparseApplyFtrl",
        by_formula(group_ftrl(power=-0.75)))
    add("lion", {}, "Chen et al. 2023, Algorithm 2", by_formula(lion()))
    add("lion", {"beta_1": 0.5, "beta_2": 0.75, "weight_decay": 0.1}, "Chen et al. 2023, Algorithm 2",
        by_formula(lion(0.5, 0.75, 0.1)))
    add("sgd", {"clipvalue": 0.5}, KERAS + "clipvalue", by_formula(sgd, clip_by_value(0.5)))
    add("sgd", {"clipnorm": 2.0}, KERAS + "clipnorm", by_formula(sgd, clip_by_norm(2.0)))
    add("sgd", {"global_clipnorm": 4.0}, KERAS + "global_clipnorm", by_formula(sgd, clip_by_norm(4.0)))
    return {"rows": start, "steps": steps, "cases": cases}


# --- tf.keras.optimizers.schedules, formulas of their documentation ----------------------------------------------


def exponential(t, initial_learning_rate, decay_steps, decay_rate, staircase=False):
    p = t / decay_steps
    return initial_learning_rate * decay_rate**(math.floor(p) if staircase else p)


def inverse_time(t, initial_learning_rate, decay_steps, decay_rate, staircase=False):
    p = t / decay_steps
    return initial_learning_rate / (1 + decay_rate * (math.floor(p) if staircase else p))


def polynomial(t, initial_learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False):
    if cycle:
        decay_steps *= math.ceil(t / decay_steps) if t > 0 else 1
    else:
        t = min(t, decay_steps)
    return (initial_learning_rate - end_learning_rate) * (1 - t / decay_steps)**power + end_learning_rate


def cosine(t, initial_learning_rate, decay_steps, alpha=0.0, warmup_target=None, warmup_steps=0):
    if warmup_target is not None:
        if t < warmup_steps:
            return initial_learning_rate + (warmup_target - initial_learning_rate) * t / warmup_steps
        t, initial_learning_rate = t - warmup_steps, warmup_target
    decayed = 0.5 * (1 + math.cos(math.pi * min(t, decay_steps) / decay_steps))
    return initial_learning_rate * ((1 - alpha) * decayed + alpha)


def cosine_restarts(t, initial_learning_rate, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0):
    completed = t / first_decay_steps
    if t_mul == 1:
        restart = math.floor(completed)
        completed -= restart
    else:
        restart = math.floor(math.log(1 - completed * (1 - t_mul)) / math.log(t_mul))
        completed = (completed - (1 - t_mul**restart) / (1 - t_mul)) / t_mul**restart
    decayed = 0.5 * m_mul**restart * (1 + math.cos(math.pi * completed))
    return initial_learning_rate * ((1 - alpha) * decayed + alpha)


def piecewise(t, boundaries, values):
    return next((v for b, v in zip(boundaries, values) if t <= b), values[-1])


def constant(t, initial_learning_rate):
    return initial_learning_rate


def warmup(t, initial_learning_rate, warmup_target, warmup_steps):
    """The warm-up of CosineDecay, then its target."""
    return cosine(t, initial_learning_rate, math.inf, 0.0, warmup_target, warmup_steps)


def schedule_cases():
    cases = []
    at = [0, 1, 2, 5, 9, 10, 11, 25, 29, 31, 40, 99, 100, 101, 250, 1000]

    def add(formula, keras, names=(), **params):
        for name in (formula.__name__, *names):
            cases.append({"name": f"{name} {json.dumps(params)}", "source": "tf.keras.optimizers.schedules." + keras,
                          "case": {"op": "schedule", "name": name, "params": params, "steps": at},
                          "expect": {"learning_rates": [formula(t, **params) for t in at]}})

    add(constant, "no decay", initial_learning_rate=0.25)
    add(exponential, "ExponentialDecay", ("ExponentialDecay", "exponential_decay"), initial_learning_rate=0.5,
        decay_steps=10, decay_rate=0.9)
    add(exponential, "ExponentialDecay", initial_learning_rate=0.5, decay_steps=10, decay_rate=0.5, staircase=True)
    add(inverse_time, "InverseTimeDecay", ("InverseTimeDecay",), initial_learning_rate=0.5, decay_steps=10, decay_rate=0.5)
    add(inverse_time, "InverseTimeDecay", initial_learning_rate=0.5, decay_steps=10, decay_rate=0.5, staircase=True)
    add(polynomial, "PolynomialDecay", ("PolynomialDecay", "polynomial_decay"), initial_learning_rate=0.5, decay_steps=100)
    add(polynomial, "PolynomialDecay", initial_learning_rate=0.5, decay_steps=30, end_learning_rate=0.01, power=0.5)
    add(polynomial, "PolynomialDecay", initial_learning_rate=0.5, decay_steps=30, end_learning_rate=0.01, power=2.0,
        cycle=True)
    add(cosine, "CosineDecay", ("CosineDecay", "cosine_decay"), initial_learning_rate=0.5, decay_steps=100)
    add(cosine, "CosineDecay", initial_learning_rate=0.5, decay_steps=100, alpha=0.1)
    add(cosine, "CosineDecay", initial_learning_rate=0.0, decay_steps=90, alpha=0.1, warmup_target=0.5, warmup_steps=10)
    add(cosine_restarts, "CosineDecayRestarts", ("CosineDecayRestarts",), initial_learning_rate=0.5, first_decay_steps=7)
    add(cosine_restarts, "CosineDecayRestarts", initial_learning_rate=0.5, first_decay_steps=7, t_mul=1.0, m_mul=0.9,
        alpha=0.1)
    add(cosine_restarts, "CosineDecayRestarts", initial_learning_rate=0.5, first_decay_steps=7, t_mul=1.5, m_mul=0.5)
    add(piecewise, "PiecewiseConstantDecay", ("PiecewiseConstantDecay", "piecewise_constant_decay"), boundaries=[9, 100],
        values=[1.0, 0.5, 0.125])
    add(warmup, "CosineDecay, warm-up", initial_learning_rate=0.125, warmup_target=0.5, warmup_steps=30)
    return cases


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers")
    torch.set_num_threads(1)
    for name, content in (("optimizers.json", optimizer_cases()), ("schedules.json", schedule_cases())):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as out:
            out.write(json.dumps(content).replace('{"optimizer"', '\n{"optimizer"').replace('{"keys"', '\n{"keys"')
                      .replace('{"name": "', '\n{"name": "') + "\n")


main()
