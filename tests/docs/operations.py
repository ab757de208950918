#!/usr/bin/env python3
"""usage: tests/docs/operations.py ROOT BUILD SECTION | --self-test

Runs the commands of docs/operations.md that belong to a section, in order, as one bash script that ends at the first command
that fails. A mark before a code block says where it belongs:

    <!-- run: SECTION -->

They run in an empty folder with examples/ and deploy/ of the tree and build/ as the only things in it. What they print is printed. Fails if a
command fails, if nothing is marked, or if a process is left behind."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 280  # seconds
MARK = "EMBERS_OPERATIONS_TEST"


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
    """The mistakes that were found."""
    with open(page, encoding="utf-8") as file:
        blocks = commands(file.read(), section)
    if not blocks:
        return [f"{page}: no code block is marked <!-- run: {section} -->"]
    script = "set -eu -o pipefail\n"
    for line, text in blocks:
        script += f"echo '--- {os.path.basename(page)}:{line}'\n{text}\n"
    with tempfile.TemporaryDirectory() as folder:
        setup(folder)
        environment = {**os.environ, MARK: folder}
        process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment, start_new_session=True, stdin=subprocess.DEVNULL)
        try:
            status = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            status = None
        mistakes = [] if status == 0 else [f"{page}: the commands of '{section}' " +
                                           (f"did not end within {LIMIT} s" if status is None else f"ended with status {status}")]
        for _ in range(0 if status is None else 50):  # whoever cleans up may take a moment
            if not left_behind(folder):
                break
            time.sleep(0.1)
        for pid, words in left_behind(folder):
            mistakes.append(f"{page}: this process is left behind: {words}")
            os.kill(pid, signal.SIGKILL)
        process.wait()
    return mistakes


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

    mistakes = run(os.path.join(root, "docs/operations.md"), section, setup)
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


if not os.environ.get("EMBERS_TEST"):
    guarded = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/guarded.sh")
    os.execv(guarded, [guarded, sys.executable, *sys.argv])
sys.exit(main())
