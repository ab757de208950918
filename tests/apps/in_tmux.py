#!/usr/bin/env python3
"""usage: in_tmux.py EMBERS SOURCE

`embers top` and the progress line in a real terminal: jobs of their own, seen through tmux's panes at 80 and 160 columns and less.
Ends with 77 where there is no tmux."""
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 120  # seconds; a sanitizer takes long
PR_SET_PDEATHSIG = 1


def wait_for(what, condition):
    """Waits until the condition gives something, and returns that."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.1)


class Terminal:
    """A tmux server with one pane, in which an interactive shell runs. Ends with this process, however that ends."""

    def __init__(self, folder, columns, lines):
        self.folder = folder
        self.env = {**os.environ, "TMUX_TMPDIR": folder, "PS1": "$ ", "ENV": "", "LC_ALL": "C.UTF-8"}
        self.env.pop("TMUX", None)
        end, self.alive = os.pipe()  # whose other end is closed once this process is gone
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "/bin/bash --norc --noprofile")
        self.tmux("set-option", "-g", "remain-on-exit", "on")
        guard = f'cat >/dev/null; exec tmux -L {self.name()} kill-server 2>/dev/null'
        self.guard = subprocess.Popen(["/bin/sh", "-c", guard], stdin=end, env=self.env, start_new_session=True)
        os.close(end)

    @staticmethod
    def name():
        return "embers-test"

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-L", self.name(), *words], env=self.env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"tmux {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def press(self, key):
        self.tmux("send-keys", key)

    def resize(self, columns, lines):
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def lines(self):
        return self.tmux("capture-pane", "-p").splitlines()

    def shows(self, pattern):
        return re.search(pattern, "\n".join(self.lines()))

    def expect(self, pattern):
        try:
            return wait_for(pattern, lambda: self.shows(pattern))
        except AssertionError as e:
            raise AssertionError(f"{e} in:\n" + "\n".join(self.lines())) from None

    def ask(self, format):
        return self.tmux("display-message", "-p", format).strip()

    def check_restored(self, why):
        """The shell's own screen is there again, with a cursor and an echo of what is typed."""
        wait_for(f"the first screen, after {why}", lambda: self.ask("#{alternate_on} #{cursor_flag}") == "0 1")
        self.type("stty -a | tr ' ' '\\n' | grep -cx -e icanon -e 'echo;*'")
        self.expect(r"\n2\n")
        self.type("clear")
        wait_for("an empty screen", lambda: not self.shows("stty"))

    def close(self):
        os.close(self.alive)
        self.guard.wait()


class Job:
    """A job of a master, two shards and two workers, which goes on until it is stopped."""

    def __init__(self, embers, source, folder):
        self.embers = embers
        self.folder = folder
        self.address = f"unix:{folder}/master.sock"
        self.words = [f"{source}/examples/criteo.toml", "--set", f"data.dir={folder}", "--set", "training.epochs=100000",
                      "--set", "job.heartbeat_timeout=300"]
        self.processes = []

    def start(self):
        self.processes = [self.run("master", *self.words, "--listen", self.address, "--shards", "2", "--workers", "2")]
        for command in ("shard", "shard", "worker", "worker"):
            self.processes.append(self.run(command, "--master", self.address))

    def run(self, *words):
        libc = ctypes.CDLL(None)
        with open(f"{self.folder}/log", "ab") as log:
            return subprocess.Popen([self.embers, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    def signal(self, number):
        self.processes[0].send_signal(number)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def log(self):
        with open(f"{self.folder}/log", encoding="utf-8") as log:
            return log.read()


def check_view(terminal, columns):
    terminal.expect(r"epoch \d+/100000")
    terminal.expect(r"[1-9][\d.]*k? examples/s +loss \d\.\d+ +AUC [01]\.\d+ +staleness \d+\.\d+")
    terminal.expect(r"workers 2 of 2 +shards 2 of 2")
    for member in ("shard 0", "shard 1", "worker 0", "worker 1"):
        # State, last sign of life; a shard's rows and bytes; pulls and pushes, which are more than none; lag.
        amounts = r"[\d.]+k? +[\d.]+ [KM]iB +" if member.startswith("shard") else ""
        terminal.expect(member + r" .*(working|idle) +[\d.]+s +" + amounts + r"[1-9][\d.]*k? +[1-9][\d.]*k? +\d+")
    lines = terminal.lines()
    assert all(len(line) <= columns for line in lines), lines
    assert terminal.ask("#{alternate_on} #{cursor_flag}") == "1 0"


def watch(terminal, job, embers):
    top = f"{embers} top --master {job.address} --interval 0.2"
    ended = "; echo ended with $?"
    terminal.type(top + ended)
    check_view(terminal, 80)
    assert not terminal.shows("MINIBATCHES"), terminal.lines()
    print("\n".join(terminal.lines()))

    terminal.resize(160, 40)
    terminal.expect(r"MINIBATCHES +EXAMPLES +JOINED +HOST +PID")
    check_view(terminal, 160)
    print("\n".join(terminal.lines()))
    looks = subprocess.run(f"{top} --json | head -n 3", shell=True, check=True, capture_output=True, text=True).stdout
    looks = [json.loads(line) for line in looks.splitlines()]
    assert len(looks) == 3 and all(len(look["members"]) >= 4 for look in looks), looks

    terminal.resize(30, 8)
    wait_for("a small view", lambda: terminal.lines()[-1:] and terminal.lines()[0].startswith(" embers top"))
    terminal.expect("examples/s")
    terminal.resize(80, 24)
    check_view(terminal, 80)

    job.signal(signal.SIGSTOP)
    terminal.expect(r"no answer for [\d.]+s")
    job.signal(signal.SIGCONT)
    wait_for("answers", lambda: not terminal.shows("no answer"))
    check_view(terminal, 80)

    terminal.press("C-z")
    terminal.expect("Stopped")
    terminal.check_restored("Ctrl-Z")
    terminal.type("fg")
    check_view(terminal, 80)

    for key in ("q", "C-c"):
        terminal.press(key)
        terminal.check_restored(key)
        terminal.type("clear;" + top + ended)
        check_view(terminal, 80)
    for number in (signal.SIGTERM, signal.SIGSEGV):
        pid = terminal.ask("#{pane_pid}")
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as children:
            os.kill(int(children.read().split()[-1]), number)
        terminal.expect(f"ended with {128 + number}")
        terminal.check_restored(number.name)
        terminal.type(top + ended)
        check_view(terminal, 80)
    job.signal(signal.SIGINT)
    terminal.expect(r"the job 'criteo.toml' has ended after \d+")
    terminal.expect("ended with 0")
    terminal.check_restored("the end of the job")


def fail_to_reach(terminal, folder, embers):
    terminal.type(f"clear; {embers} top --master unix:{folder}/none; echo ended with $?")
    terminal.expect(r"no answer for [\d.]+s, trying again")
    terminal.press("q")
    terminal.expect("ended with 0")
    terminal.type(f"TERM=dumb {embers} top --master unix:{folder}/none; echo ended with $?")
    terminal.expect("cannot show a live view(.|\n)*ended with 2")
    terminal.type("clear")
    terminal.type(f"{embers} top --json --master unix:{folder}/none; echo ended with $?")
    terminal.expect("ended with 2")
    terminal.type("clear")
    terminal.type(f"{embers} top --master unix:{folder}/none | cat; echo ended with ${{PIPESTATUS[0]}}")
    terminal.expect("ended with 2")
    terminal.type("clear")


# The line is as wide as the terminal, however that changes, and leaves nothing behind.
def train(terminal, job, embers):
    terminal.resize(100, 24)
    terminal.type(f"{embers} train {' '.join(job.words)}")
    terminal.expect(r"epoch \d+/100000 .*\[#* *\].* left .*workers?")
    for columns in (60, 130, 40, 100):
        terminal.resize(columns, 24)
        fields = {40: "left", 60: "/s", 100: "worker", 130: "rows"}[columns]
        terminal.expect(r"(?m)^epoch \d+/100000 .*" + fields)

        def is_one_line():
            shown = [line for line in terminal.lines() if re.search(r"left|/s|rows", line)]
            return len(shown) <= 1 and all(len(line) < columns for line in shown)

        wait_for("the line to be drawn anew", is_one_line)  # tmux has broken the last one into several
        for _ in range(5):
            time.sleep(0.3)
            assert is_one_line(), terminal.lines()
    terminal.press("C-c")
    terminal.expect(r"examples in .*(.|\n)*staleness of gradients mean [\d.]+, max \d+\n")
    print("\n".join(terminal.lines()))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    embers, source = (os.path.abspath(word) for word in sys.argv[1:])
    if not shutil.which("tmux"):
        print("skipped: there is no tmux")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([embers, "synth", "criteo", "--rows", "100000", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        terminal = Terminal(folder, 80, 24)
        job = Job(embers, source, folder)
        try:
            job.start()
            watch(terminal, job, embers)
            train(terminal, job, embers)
            fail_to_reach(terminal, folder, embers)
        except AssertionError:
            print(job.log())
            raise
        finally:
            job.end()
            terminal.close()
    return 0


if not os.environ.get("EMBERS_TEST"):
    guarded = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/guarded.sh")
    os.execv(guarded, [guarded, sys.executable, *sys.argv])
sys.exit(main())
