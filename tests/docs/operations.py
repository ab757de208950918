#!/usr/bin/env python3
"""usage: tests/docs/operations.py ROOT BUILD SECTION | --self-test

Runs the commands of docs/operations.md that belong to a section, in order, as one bash script that ends at the first command
that fails. A mark before a code block says where it belongs:

    <!-- run: SECTION -->

They run in an empty folder with examples/ and deploy/ of the tree and build/ as the only things in it. What they print is printed. Fails if a
command fails, if nothing is marked, or if a process is left behind. For `hosts`, node1 to node3 are this host, through an sshd of
the test's own; without /usr/sbin/sshd it ends with 77."""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT = 280  # seconds
MARK = "EMBERS_OPERATIONS_TEST"
SSHD = "/usr/sbin/sshd"


def commands(text, section):
    """(line, commands) of each code block of this section."""
    found, marked, fence = [], False, None
    for n, line in enumerate(text.split("\n"), 1):
        if fence is not None:
            if line.startswith("```"):
                if marked:
                    found.append((fence[0], "\n".join(fence[1])))
                fence, marked = None, False
            else:
                fence[1].append(line)
        elif line.startswith("```"):
            fence = (n + 1, [])
        elif match := re.fullmatch(r"<!-- run: (\S+) -->", line):
            marked = match.group(1) == section
    return found


def left_behind(mark):
    found = []
    for environ in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(environ, "rb") as file:
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    with open(os.path.join(os.path.dirname(environ), "cmdline"), "rb") as words:
                        found.append((int(environ.split("/")[2]), words.read().replace(b"\0", b" ").decode()))
        except OSError:
            continue
    return found


def run(page, section, setup):
    """The mistakes that were found. `setup` makes the folder in which the commands run, and returns what ends with them, or None."""
    with open(page, encoding="utf-8") as file:
        blocks = commands(file.read(), section)
    if not blocks:
        return [f"{page}: no code block is marked <!-- run: {section} -->"]
    script = "set -eu -o pipefail\n"
    for line, text in blocks:
        script += f"echo '--- {os.path.basename(page)}:{line}'\n{text}\n"
    with tempfile.TemporaryDirectory() as folder:
        fixture = setup(folder)
        environment = {**os.environ, MARK: folder}
        process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment, start_new_session=True, stdin=subprocess.DEVNULL)
        try:
            status = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            status = None
        mistakes = [] if status == 0 else [f"{page}: the commands of '{section}' " +
                                           (f"did not end within {LIMIT} s" if status is None else f"ended with status {status}")]
        quiet = 0  # looks in a row that found nothing: one can miss a process that begins another program
        for _ in range(0 if status is None else 50):  # whoever cleans up may take a moment
            quiet = 0 if left_behind(folder) else quiet + 1
            if quiet == 3:
                break
            time.sleep(0.1)
        for pid, words in left_behind(folder):
            mistakes.append(f"{page}: this process is left behind: {words}")
            os.kill(pid, signal.SIGKILL)
        process.wait()
        if fixture is not None:
            fixture.end()
    return mistakes


class Hosts:
    """An sshd on the loopback, and a command `ssh` that reaches it by the name of any host. Ends with this process. What runs at its
    other end has the mark, too."""

    def __init__(self, mark):
        self.keys = tempfile.TemporaryDirectory()
        self.folder = folder = self.keys.name
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.write("server", f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
                             f"PidFile {folder}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                             f"PermitRootLogin prohibit-password\nMaxStartups 100\nSetEnv {MARK}={mark}\n")
        self.write("client", f"Host node*\nHostName 127.0.0.1\nPort {port}\nIdentityFile {folder}/user\nIdentitiesOnly yes\n"
                             f"UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile none\nStrictHostKeyChecking accept-new\n"
                             "LogLevel ERROR\n")
        os.mkdir(f"{folder}/bin")
        self.write("bin/ssh", f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/client "$@"\n')
        os.chmod(f"{folder}/bin/ssh", 0o700)
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # as a package's service makes it
        self.server = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", SSHD, "-D", "-e", "-f", f"{folder}/server"],
                                       stderr=subprocess.DEVNULL)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        else:
            raise RuntimeError("sshd does not listen")
        os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def end(self):
        self.server.kill()
        self.server.wait()
        self.keys.cleanup()


def self_test():
    failures = 0
    for text, expected in [
            ("<!-- run: a -->\n```\ntouch x\n```\n```\nfalse\n```\n<!-- run: b -->\n```\nfalse\n```\n<!-- run: a -->\n```\ntest -f x\n```", None),
            ("<!-- run: a -->\n```\nfalse\ntrue\n```", "ended with status 1"),
            ("<!-- run: a -->\n```\nsetsid sleep 1000 > /dev/null &\n```", "left behind: sleep 1000"),
            ("```\ntrue\n```", "no code block is marked"),
            ("<!-- run: b -->\n```\ntrue\n```", "no code block is marked")]:
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            with open(page, "w", encoding="utf-8") as file:
                file.write(text)
            found = run(page, "a", lambda _: None)
        if not (expected in found[0] if expected and found else expected is None and not found):
            print(f"self-test: {text!r} gave {found}, expected {expected!r}")
            failures += 1
    return failures == 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 0 if self_test() else 1
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    root, build, section = sys.argv[1:]

    def setup(folder):
        for part in ("examples", "deploy"):
            shutil.copytree(os.path.join(root, part), os.path.join(folder, part))
        os.symlink(os.path.abspath(build), os.path.join(folder, "build"))
        if section == "hosts":  # the click log that the page makes in its first section
            subprocess.run(["build/embers", "synth", "criteo", "--rows", "20000", "--out", "data"], cwd=folder, check=True)
            return Hosts(folder)
        return None

    if section == "hosts" and not os.path.exists(SSHD):
        print(f"there is no {SSHD}: install openssh-server")
        return 77
    mistakes = run(os.path.join(root, "docs/operations.md"), section, setup)
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


if not os.environ.get("EMBERS_TEST"):
    guarded = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/guarded.sh")
    os.execv(guarded, [guarded, sys.executable, *sys.argv])
sys.exit(main())
