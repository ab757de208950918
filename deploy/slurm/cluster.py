#!/usr/bin/env python3
"""A Slurm cluster of one's own, for tests and for trying things out: munge, MariaDB, slurmdbd, slurmctld and several slurmd on the
loopback of this host, as the current user, without an init system. It lives as long as this process, and leaves nothing behind.

    cluster.py run [--nodes N] [--cpus C] [--dir DIR] [COMMAND ...]
                     start it, run COMMAND with SLURM_CONF set, and end with its status; without COMMAND, print "SLURM_CONF=FILE" when
                     the cluster is ready, and end at SIGINT, SIGTERM, or when the process that started this one ends
    cluster.py crash DIR NODE      the node dies: SIGKILL to its slurmd and all that runs there
    cluster.py revive DIR NODE     its slurmd starts again

Debian's packages: slurm-wlm slurmdbd munge mariadb-server. Configured by slurm.conf.in and slurmdbd.conf.in beside this file."""
import argparse
import ctypes
import os
import platform
import pwd
import random
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
LONGEST_DIR = 60  # the path of a Unix socket has 107 bytes at most
NEEDED = ["munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacctmgr", "scontrol", "sinfo"]
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PRCTL = ctypes.CDLL(None, use_errno=True).prctl  # looked up here: a child between fork and exec should not


class Failed(Exception):
    """Of which the user is told; nothing else is wrong."""
    status = 1


class NotInstalled(Failed):
    status = 77  # as tests say that they are skipped


# --- processes -----------------------------------------------------------------------------------
# Whoever dies takes along what it started: daemons are killed with their parent (PDEATHSIG). What slurmd starts detaches itself and
# outlives it; such processes become children of their node's holder, a process that does nothing else, and of this one after it.

def ends_with(parent, with_signal):
    PRCTL(PR_SET_PDEATHSIG, with_signal)
    if os.getppid() != parent:
        os._exit(1)  # it has ended meanwhile


def adopt_orphans():
    PRCTL(PR_SET_CHILD_SUBREAPER, 1)


def start(command, log, env=None):
    """A daemon in the foreground, in a session of its own: a terminal's Ctrl-C is not for it."""
    parent = os.getpid()

    def prepare():
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        ends_with(parent, signal.SIGKILL)

    with open(log, "ab") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True,
                                preexec_fn=prepare)


def descendants():
    """The pids of all that this process started, directly or not, but for zombies: parents before their children."""
    children = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(pid))
    found, ask = [], [os.getpid()]
    while ask:
        more = children.get(ask.pop(), [])
        found += more
        ask += more
    return found


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def kill_descendants():
    """As when the power goes: all stop before the first one ends. Each srun has a child that ends the step when srun dies, on other
    nodes too: alive for a moment longer, it would tell slurmctld so."""
    stopped = set()
    while new := set(descendants()) - stopped:
        signal_all(new, signal.SIGSTOP)
        stopped |= new
    while pids := descendants():
        signal_all(reversed(pids), signal.SIGKILL)  # whose parent has ended may be continued by the kernel
        time.sleep(0.01)
        reap()


# --- nodes ---------------------------------------------------------------------------------------

def hold(directory, node, env, parent):
    """The life of a node's holder. SIGUSR1: the node dies. SIGUSR2: it starts again."""
    told = {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, told)
    ends_with(parent, signal.SIGTERM)
    os.setsid()
    adopt_orphans()

    def boot():
        start(["slurmd", "-D", "-N", node], f"{directory}/log/{node}.out", env)

    boot()
    while (said := signal.sigwait(told)) != signal.SIGTERM:
        if said == signal.SIGUSR1:
            kill_descendants()
        elif said == signal.SIGUSR2:
            boot()
        else:
            reap()
    kill_descendants()


def start_node(directory, node, env):
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            hold(directory, node, env, parent)
        finally:
            os._exit(0)
    with open(f"{directory}/run/{node}.holder", "w", encoding="ascii") as file:
        file.write(str(pid))
    return pid


def tell_node(directory, node, what):
    try:
        with open(f"{directory}/run/{node}.holder", encoding="ascii") as file:
            os.kill(int(file.read()), what)
    except (OSError, ValueError) as error:
        raise Failed(f"no cluster with a node '{node}' runs in {directory}: {error}") from None


# --- the cluster ---------------------------------------------------------------------------------

def reserve_ports(count):
    """Ports in a row, kept by sockets that are bound but do not listen: daemons, which set SO_REUSEADDR, may listen there, but no
    other cluster finds them free. Below the ports that the kernel hands out by itself."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        low = int(file.read().split()[0])
    low = low if low > 20000 else 32768
    for _ in range(200):
        first, sockets = random.randrange(10000, low - count), []
        try:
            for port in range(first, first + count):
                kept = socket.socket()
                sockets.append(kept)
                kept.bind(("0.0.0.0", port))
                kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return first, sockets
        except OSError:
            for kept in sockets:
                kept.close()
    raise Failed(f"there are no {count} free ports in a row between 10000 and {low}")


class Cluster:
    def __init__(self, directory, nodes, cpus, kill_wait):
        self.dir, self.kill_wait = directory, kill_wait
        self.nodes, self.cpus = [f"node{i + 1}" for i in range(nodes)], cpus
        self.env = {**os.environ, "SLURM_CONF": f"{directory}/slurm.conf", "MYSQL_UNIX_PORT": f"{directory}/run/db.sock"}
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.daemons = {}

    def daemon(self, name, *command):
        self.daemons[name] = start([name, *command], f"{self.dir}/log/{name}.out", self.env)

    def wait(self, seconds, name, command, good=lambda out: True):
        """Until the command succeeds; the daemon must live meanwhile."""
        end = time.monotonic() + seconds
        while True:
            done = subprocess.run(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode == 0 and good(done.stdout):
                return
            if self.daemons[name].poll() is not None or time.monotonic() > end:
                with open(f"{self.dir}/log/{name}.out", encoding="utf-8", errors="replace") as log:
                    raise Failed(f"{name} does not serve. '{' '.join(command)}' said: {done.stdout}\nIts log ends with:\n" +
                                 "".join(log.readlines()[-15:]))
            time.sleep(0.05)

    def configure(self, port):
        lines = "\n".join(f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port + 2 + i} CPUs={self.cpus} State=UNKNOWN"
                          for i, node in enumerate(self.nodes))
        values = {"DIR": self.dir, "USER": self.user, "HOST": platform.node().split(".")[0], "PORT": port, "DBD_PORT": port + 1,
                  "NODES": len(self.nodes), "NODE_LINES": lines, "KILL_WAIT": self.kill_wait}
        for name in ("slurm.conf", "slurmdbd.conf"):
            with open(f"{HERE}/{name}.in", encoding="utf-8") as template:
                text = string.Template(template.read()).substitute(values)
            with open(f"{self.dir}/{name}", "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600 if name == "slurmdbd.conf" else 0o644)
                file.write(text)

    def start(self):
        for folder in ("run", "log", "state", "spool", "tmp", "db"):
            os.mkdir(f"{self.dir}/{folder}", 0o700 if folder == "db" else 0o755)
        for node in self.nodes:
            os.mkdir(f"{self.dir}/spool/{node}")
        self.start_munge()
        self.start_database()
        port, kept = reserve_ports(2 + len(self.nodes))
        self.configure(port)
        self.daemon("slurmdbd", "-D")
        self.wait(30, "slurmdbd", ["sacctmgr", "-n", "show", "cluster"])  # a first slurmctld does not start without it
        self.daemon("slurmctld", "-D")
        self.wait(30, "slurmctld", ["scontrol", "ping"], lambda out: "is UP" in out)
        holders = [start_node(self.dir, node, self.env) for node in self.nodes]
        self.wait(60, "slurmctld", ["sinfo", "-h", "-N", "-p", "main", "-o", "%T"],
                  lambda out: out.split() == ["idle"] * len(self.nodes))
        return kept, holders

    def start_munge(self):
        key = f"{self.dir}/munge.key"
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(1024))
        self.daemon("munged", "--foreground", "--force", "--num-threads=4", f"--key-file={key}", f"--socket={self.dir}/run/munge.sock",
                    f"--pid-file={self.dir}/run/munged.pid", f"--seed-file={self.dir}/munge.seed", f"--log-file={self.dir}/log/munged.log")

    def start_database(self):
        root = ["--user=root"] if self.user == "root" else []
        made = subprocess.run(
            ["mariadb-install-db", "--no-defaults", *root, f"--datadir={self.dir}/db", "--auth-root-authentication-method=socket",
             f"--auth-root-socket-user={self.user}", "--skip-test-db"],
            env={**self.env, "TMPDIR": f"{self.dir}/tmp"},  # of its own: two at once in one folder disturb each other
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode != 0:
            raise Failed(f"mariadb-install-db failed: {made.stdout[-1000:]}")
        self.daemon("mariadbd", "--no-defaults", *root, f"--datadir={self.dir}/db", f"--socket={self.dir}/run/db.sock",
                    f"--pid-file={self.dir}/run/mariadbd.pid", f"--tmpdir={self.dir}/tmp", "--skip-networking",
                    "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-lock-wait-timeout=900",
                    "--innodb-flush-log-at-trx-commit=0", "--performance-schema=OFF")
        self.wait(30, "munged", ["munge", "-n", "-S", f"{self.dir}/run/munge.sock"])
        self.wait(60, "mariadbd", ["mariadb-admin", "--no-defaults", f"--socket={self.dir}/run/db.sock", "ping"])


def check(directory):
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        raise NotInstalled(f"{', '.join(missing)} not found: apt-get install slurm-wlm slurmdbd munge mariadb-server")
    if len(directory) > LONGEST_DIR:
        raise Failed(f"{directory}: too long a name for the Unix sockets in it ({LONGEST_DIR} characters at most); give a shorter --dir")
    if set(directory) & set(" \t#%,=$"):
        raise Failed(f"{directory}: slurm.conf cannot hold this name; give another --dir")
    if os.listdir(directory):
        raise Failed(f"{directory} is not empty")


def run_command(command, env):
    """Its status, as a shell would give it. In the foreground: signals of a terminal reach it too."""
    parent = os.getpid()
    try:
        with subprocess.Popen(command, env=env, preexec_fn=lambda: ends_with(parent, signal.SIGKILL)) as child:
            status = child.wait()
    except OSError as error:
        raise Failed(f"cannot run {command[0]}: {error.strerror}") from None
    return status if status >= 0 else 128 - status


def run(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    PRCTL(PR_SET_PDEATHSIG, signal.SIGTERM)
    adopt_orphans()
    made = not options.dir
    directory = os.path.realpath(options.dir or tempfile.mkdtemp(prefix="slurm-"))
    try:
        os.makedirs(directory, exist_ok=True)
        check(directory)
        cluster = Cluster(directory, options.nodes, options.cpus, options.kill_wait)
        kept = cluster.start()  # noqa: F841  ports are kept while it runs
        if options.command:
            return run_command(options.command, cluster.env)
        print(f"SLURM_CONF={cluster.env['SLURM_CONF']}", flush=True)
        signal.pause()
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        kill_descendants()
        if made:
            shutil.rmtree(directory, ignore_errors=True)


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    os.environ["LC_ALL"] = "C"
    os.umask(0o022)
    parser = argparse.ArgumentParser(usage=__doc__)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--nodes", type=int, default=3)
    runs.add_argument("--cpus", type=int, default=4, help="that each node says it has")
    runs.add_argument("--kill-wait", type=int, default=5, help="seconds between SIGTERM and SIGKILL")
    runs.add_argument("--dir", help="an empty or new folder, kept at the end; by default a temporary one")
    runs.add_argument("command", nargs=argparse.REMAINDER)
    runs.set_defaults(do=run)
    for name, what in (("crash", signal.SIGUSR1), ("revive", signal.SIGUSR2)):
        tells = commands.add_parser(name)
        tells.add_argument("dir")
        tells.add_argument("node")
        tells.set_defaults(do=lambda o, what=what: tell_node(os.path.realpath(o.dir), o.node, what))
    try:
        options = parser.parse_args()
        return options.do(options) or 0
    except Failed as error:
        print(f"cluster.py: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
