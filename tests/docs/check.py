#!/usr/bin/env python3
"""usage: tests/docs/check.py ROOT [EMBERS] | --self-test

Checks the documents: every link and anchor leads somewhere, every path of the tree that is named exists, every folder has its README.
With the program EMBERS also: docs/ names every command, option, job-file key and parameter that the program has, and no others; what
other pages and examples use of them is there, too. Prints each mistake as file:line and fails if there is any.

What the documents must look like for this:
- docs/commands.md has a heading "## embers COMMAND" for each command. Below it a table whose first column is "option" has its options,
  the second one ("default") their defaults.
- Job-file keys are in tables whose first column is "key", below a heading that names the section as TOML does: "## [training]". A last
  part in capitals ([features.NAME]) stands for any name.
- docs/optimizers.md and docs/models.md have tables of parameters, each with its default: see PARAMETERS."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib

SKIPPED = re.compile(r"^(\.|build)")  # folders of the root that are not part of the tree
CODE = r"(?:h|cc|inc|py|sh|capnp|md|toml|supp)"
FOREIGN = re.compile(r"^(build|torch|caf|boost)/|^(job|mine)\.toml$")  # not in this tree: of libraries, the build, or users
USERS = {"data/census/"}  # made by the user
MOST_README_LINES = 150
# Sections of the job file with the same keys as a section elsewhere.
SAME_SECTION = {"storage.tables.optimizer": "optimizer", "storage.tables.optimizer.schedule": "optimizer.schedule"}
# { name, parameters }
ONLY_A_NAME = {"columns.initializer", "storage.tables.initializer", "storage.tables.constraint"}
# Sections with keys that belong to a model, an update rule or a schedule.
FREE_SECTIONS = {"model", "optimizer", "optimizer.schedule"}
# Parameters that are documented once, for all rules.
EVERYWHERE = {"clipvalue", "clipnorm", "global_clipnorm", "initial_learning_rate", "warmup_steps", "warmup_target"}
EVERY_COMMAND = {"--help", "-h", "--version"}  # options
UNKNOWN = "zzzzzzzzzzzzzzzz"  # resembles no name
# Targets of benchmarks, named like keys.
TARGETS = re.compile(r"^(storage\.(vs|limit)_|model\.(<|\w+\.)|train\.)")


class Page:
    """A Markdown file: its lines, without code, and its code."""

    def __init__(self, root, path):
        self.path, self.folder = path, os.path.dirname(path)
        self.headings, self.links, self.spans, self.rows, self.fences = [], [], [], [], []
        anchors, fence, head = {}, None, None
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        for n, line in enumerate(self.lines, 1):
            opening = re.match(r"^\s*```(\w*)", line)
            if opening and fence is None:
                fence = (n, opening.group(1), [])
            elif opening:
                self.fences.append((fence[0], fence[1], "\n".join(fence[2])))
                fence = None
            elif fence is not None:
                fence[2].append(line)
            elif heading := re.match(r"^#+ +(.*?) *$", line):
                text = heading.group(1)
                slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).lower()).replace(" ", "-")
                anchors[slug] = anchors.get(slug, -1) + 1
                self.headings.append((n, text, slug if anchors[slug] == 0 else f"{slug}-{anchors[slug]}"))
            if fence is not None or opening:
                continue
            for span in re.finditer(r"`([^`]+)`", line):
                self.spans.append((n, span.group(1)))
            bare = re.sub(r"`[^`]+`", "code", line)
            for link in re.finditer(r"\[[^]]*\]\(([^)\s]+)\)", bare):
                self.links.append((n, link.group(1)))
            if not line.startswith("|"):
                head = None
            elif head is None:
                head = [cell.strip() for cell in line.strip("|").split("|")]
            elif not re.match(r"^\|[-| :]+$", line):
                cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
                self.rows.append((n, self.headings[-1][1] if self.headings else "", head, cells))
        if fence is not None:
            self.fences.append((fence[0], "unclosed", ""))

    def anchors(self):
        return {slug for _, _, slug in self.headings}


class Checker:
    def __init__(self, root, embers=None):
        self.root, self.embers, self.mistakes = root, embers, []
        self.files, self.folders = set(), set()
        for directory, folders, names in os.walk(root):
            here = os.path.relpath(directory, root)
            here = "" if here == "." else here + "/"
            folders[:] = [f for f in folders if f != "__pycache__" and (here or not SKIPPED.match(f))]
            self.files.update(here + name for name in names)
            self.folders.update(here + folder for folder in folders)
        self.basenames = {os.path.basename(file) for file in self.files}
        self.pages = {f: Page(root, f) for f in sorted(self.files) if f.endswith(".md")}

    def mistake(self, page, line, what):
        self.mistakes.append(f"{page}:{line}: {what}")

    # --- the tree --------------------------------------------------------------------------------

    def check_links(self):
        for page in self.pages.values():
            for line, target in page.links:
                if re.match(r"^[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                full = os.path.normpath(os.path.join(page.folder, path)) if path else page.path
                if full not in self.files and full not in self.folders:
                    self.mistake(page.path, line, f"the link leads nowhere: {target}")
                elif anchor and (full not in self.pages or anchor not in self.pages[full].anchors()):
                    self.mistake(page.path, line, f"there is no such heading: {target}")
            for line, language, _ in page.fences:
                if language == "unclosed":
                    self.mistake(page.path, line, "this code block has no end")

    def is_there(self, page, path):
        """A file or folder of the tree, from the root or the page's own folder; "a.*" stands for several."""
        for base in ("", page.folder):
            pattern = os.path.normpath(os.path.join(glob.escape(self.root), base, path))
            if glob.glob(pattern):
                return True
        return "/" not in path and any(re.fullmatch(re.escape(path).replace(r"\*", ".*"), name) for name in self.basenames)

    def check_paths(self):
        tops = {folder for folder in self.folders if "/" not in folder}
        for page in self.pages.values():
            for line, span in page.spans:
                path = span.split()[0] if span.split() else ""
                ours = re.fullmatch(r"(?:[\w.-]+/)*[\w-]+\." + CODE[:-1] + r"|\*)", path) or (
                    "/" in path and re.fullmatch(r"[\w./*-]+", path) and path.split("/")[0] in tops)
                if ours and not FOREIGN.search(path) and path not in USERS and not self.is_there(page, path):
                    self.mistake(page.path, line, f"there is no {path}")
            for line, _, text in page.fences:
                for path in re.findall(r"(?<![\w/.~-])(?:[\w-]+/)+[\w-]+\." + CODE + r"\b", text):
                    if path.split("/")[0] in tops and not self.is_there(page, path):
                        self.mistake(page.path, line, f"there is no {path}")

    def check_readmes(self):
        sources = {os.path.dirname(f) for f in self.files if f.endswith((".h", ".cc", ".toml", ".sh"))}
        for folder in sorted(sources):
            if folder and not re.match(r"tests/(?!bench)", folder) and f"{folder}/README.md" not in self.files:
                self.mistake(f"{folder}/README.md", 1, "the folder has no README.md")
        for folder in sorted(self.folders):
            page = self.pages.get(f"{folder}/README.md")
            if page and os.path.dirname(folder) in sources and f"{os.path.dirname(folder)}/README.md" in self.pages:
                above = self.pages[f"{os.path.dirname(folder)}/README.md"]
                if f"{os.path.basename(folder)}/README.md" not in {target for _, target in above.links}:
                    self.mistake(above.path, 1, f"does not link to {os.path.basename(folder)}/README.md")
        if "README.md" in self.pages and len(self.pages["README.md"].lines) > MOST_README_LINES + 1:
            self.mistake("README.md", MOST_README_LINES + 1, f"the first page has more than {MOST_README_LINES} lines")
        reached, todo = set(), ["README.md"]
        while todo:
            page = todo.pop()
            if page in reached or page not in self.pages:
                continue
            reached.add(page)
            todo += [os.path.normpath(os.path.join(self.pages[page].folder, target.partition("#")[0]))
                     for _, target in self.pages[page].links]
        for page in self.pages:
            if page.startswith("docs/") and page not in reached:
                self.mistake(page, 1, "no link leads here from the README")

    # --- the program -----------------------------------------------------------------------------

    def run(self, *words, stdin=""):
        done = subprocess.run([self.embers, *words], input=stdin, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def check_commands(self, commands):
        documented = {}  # command: {option: (line, default)}
        page = self.pages.get("docs/commands.md")
        if page is None:
            return self.mistake("docs/commands.md", 1, "is missing")
        for line, text, _ in page.headings:
            if match := re.fullmatch(r"embers( [\w -]+)?", text):
                documented[(match.group(1) or "").strip()] = (line, {})
        for line, heading, head, cells in page.rows:
            if head[0] != "option":
                continue
            command = heading.removeprefix("embers").strip()
            for option in re.findall(r"`(-[^`]+)`", cells[0]):
                if command in documented:
                    documented[command][1][option] = (line, cells[1] if len(cells) > 2 else "")
        for name, options in commands.items():
            if name == "" or (not set(options) - EVERY_COMMAND and any(c.startswith(name + " ") for c in commands)):
                continue  # embers itself, and what only has commands below it
            if name not in documented:
                self.mistake(page.path, 1, f"there is no heading 'embers {name}'")
                continue
            line, rows = documented[name]
            for option, default in options.items():
                if option in EVERY_COMMAND:
                    continue
                if option not in rows:
                    self.mistake(page.path, line, f"embers {name} has {option}, which is not here")
                elif default is not None and rows[option][1] != f"`{default}`":
                    self.mistake(page.path, rows[option][0], f"embers {name}: the default of {option} is {default}")
            for option, (row, _) in rows.items():
                if option not in options:
                    self.mistake(page.path, row, f"embers {name} has no {option}")
        for alias, name in self.aliases.items():
            if not any(span == f"embers {alias}" for _, span in page.spans):
                self.mistake(page.path, documented.get(name, (1, {}))[0], f"embers {name} is also `embers {alias}`, which is not here")
        for name, (line, _) in documented.items():
            if name and name not in commands:
                self.mistake(page.path, line, f"there is no command 'embers {name}'")
        return None

    def check_keys(self, job):
        documented = {}  # section: {key: (page, line)}
        headings = {}
        for page in self.pages.values():
            if not page.path.startswith("docs/"):
                continue
            for line, text, _ in page.headings:
                if match := re.fullmatch(r"\[([\w.]+)\]", text):
                    headings.setdefault(re.sub(r"\.[A-Z]+$", "", match.group(1)), (page.path, line))
            for line, heading, head, cells in page.rows:
                match = re.fullmatch(r"\[([\w.]+)\]", heading)
                if match and head[0] == "key":
                    section = re.sub(r"\.[A-Z]+$", "", match.group(1))
                    for key in re.findall(r"`([^`]+)`", cells[0]):
                        documented.setdefault(section, {})[key] = (page.path, line)
        for section, keys in job.items():
            if section in SAME_SECTION or section in ONLY_A_NAME:
                wanted = set(job.get(SAME_SECTION.get(section), [])) if section in SAME_SECTION else {"name"}
                if set(keys) != wanted:
                    self.mistake("docs/job-file.md", 1, f"[{section}] has keys of its own now: {sorted(keys)}")
                continue
            if section not in headings:
                self.mistake("docs/job-file.md", 1, f"there is no heading '[{section}]'")
                continue
            rows = documented.get(section, {})
            for key in keys:
                if key not in rows:
                    self.mistake(*headings[section], f"[{section}] has the key {key}, which is not here")
            for key, (page, line) in rows.items():
                if key not in keys:
                    self.mistake(page, line, f"[{section}] has no key {key}")
        for section, (page, line) in headings.items():
            if section not in job:
                self.mistake(page, line, f"there is no section [{section}]")

    def check_uses(self, commands, job):
        options = {option for known in commands.values() for option in known}
        for page in self.pages.values():
            for line, span in page.spans:
                self.check_command_line(page, line, span, commands)
                word = re.split(r"[ =]", span)[0]
                if re.fullmatch(r"--[\w-]+", word) and word not in options:
                    self.mistake(page.path, line, f"no command has {word}")
                self.check_key_use(page, line, span, job)
            for line, language, text in page.fences:
                for command in text.replace("\\\n", " ").split("\n"):
                    self.check_command_line(page, line, command, commands)
                if language == "toml":
                    self.check_toml(page.path, line, text, job)
        for file in sorted(self.files):
            if file.startswith("examples/") and file.endswith(".toml"):
                with open(os.path.join(self.root, file), encoding="utf-8") as text:
                    self.check_toml(file, 1, text.read(), job)

    def check_command_line(self, page, line, text, commands):
        text = text.split("#")[0]
        match = re.match(r"^\s*(?:\S*/)?embers ([a-z]+(?: [a-z]+)?)(.*)$", text)
        if not match:
            return
        words, rest = match.group(1), match.group(2)
        name = words if words in commands else words.split()[0]
        name = self.aliases.get(name, name)
        if name not in commands:
            return self.mistake(page.path, line, f"there is no command 'embers {name}'")
        known = set(commands[name])
        if re.match(r" [A-Z]+\b", rest):  # embers bench NAME
            known |= {option for command, more in commands.items() if command.startswith(name + " ") for option in more}
        for option in re.findall(r"(?<!\S)--[\w-]+", rest):
            if option not in known and option != "--help":
                self.mistake(page.path, line, f"embers {name} has no {option}")
        for key in re.findall(r"--set ([a-z_.]+)=", rest):
            self.check_key(page.path, line, key)
        return None

    def check_key_use(self, page, line, span, job):
        if re.fullmatch(r"[a-z]+(\.[a-z_]+)+( ?= ?.*)?", span) and not TARGETS.match(span):
            key = re.split(r"[ =]", span)[0]
            if key.split(".")[0] in job and not re.search(r"\." + CODE + "$", key):
                self.job = job
                self.check_key(page.path, line, key)

    def check_key(self, file, line, key):
        section, _, name = key.rpartition(".")
        if section in self.job and (name in self.job[section] or section in FREE_SECTIONS):
            return
        if section in ("features", "columns", "storage.tables") or key.split(".")[0] not in self.job:
            return
        self.mistake(file, line, f"job files have no key {key}")

    def check_toml(self, file, line, text, job):
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            return self.mistake(file, line, f"this TOML does not parse: {e}")

        def walk(section, table):
            for key, value in table.items():
                if key not in job[section] and section not in FREE_SECTIONS:
                    self.mistake(file, line, f"[{section}] has no key {key}")
                below = f"{section}.{key}"
                for item in value if isinstance(value, list) else [value]:
                    if isinstance(item, dict) and below in job:
                        entries(below, item)

        def entries(section, table):
            if section in ("features", "columns", "storage.tables"):
                for entry in table.values():
                    walk(section, entry)
            elif section not in ONLY_A_NAME:
                walk(section, table)

        for section, table in document.items():
            if section not in job:
                self.mistake(file, line, f"there is no section [{section}]")
            else:
                entries(section, table)
        return None

    # Parameters of update rules, schedules and initializers: each table row is tried with `embers op`. With the documented defaults
    # a case must give what it gives without them; an unknown parameter must be refused with the list of those that are documented.
    def check_parameters(self):
        page = self.pages.get("docs/optimizers.md")
        if page is None:
            return self.mistake("docs/optimizers.md", 1, "is missing")
        kinds = {"Update rules": self.rule_cases, "Schedules": self.schedule_cases, "Initializers": self.initializer_cases}
        cases = []
        found = {kind: {} for kind in kinds}  # kind: {name: (line, {parameter: default})}
        for line, heading, head, cells in page.rows:
            if heading not in kinds or head[0] != "name":
                continue
            text = cells[head.index("parameters (default)")]
            params = {name: value for name, value in re.findall(r"`([a-z]\w+)`(?: \(([^);]*)[^)]*\))?", text)}
            for base in re.findall(r"^as `(\w+)`", text):
                params = {**found[heading][base][1], **params}
                for gone in re.findall(r"without (.*)", text):
                    for word in re.findall(r"`?(\w+)`?", gone):
                        params = {k: v for k, v in params.items() if k != word and word not in k.split("_")}
                params.pop(base, None)
            for name in re.findall(r"`(\w+)`", cells[0]):
                found[heading][name] = (line, params)
                cases.append((kinds[heading](name, params), name, line, params))
        probes = {"Update rules": {"op": "optimizer", "rows": {"a": [1]}, "steps": []},
                  "Schedules": {"op": "schedule", "steps": [0]},
                  "Initializers": {"op": "initializer", "seed": 1, "table": "t", "keys": [1], "dim": 1}}
        questions = [{**probe, "name": UNKNOWN} for probe in probes.values()]
        for case, _, _, _ in cases:
            questions += case
        answers = iter(self.op(questions))
        for kind in probes:
            if not found[kind]:
                self.mistake(page.path, 1, f"there is no table of parameters below '{kind}'")
            known = self.known_after(next(answers))
            for name in sorted(known - set(found[kind])):
                self.mistake(page.path, 1, f"'{kind}' does not have {name}")
            for name in sorted(set(found[kind]) - known):
                self.mistake(page.path, found[kind][name][0], f"the program has no {name}")
        for case, name, line, params in cases:
            problem = self.problem([next(answers) for _ in case], params)
            if problem:
                self.mistake(page.path, line, f"{name}: {problem}")
        return None

    def op(self, cases):
        """The answers of one `embers op --lines`."""
        _, out, err = self.run("op", "--lines", stdin="".join(json.dumps(case) + "\n" for case in cases))
        answers = [json.loads(line) for line in out.splitlines()]
        if len(answers) != len(cases):
            raise RuntimeError(f"embers op --lines gave {len(answers)} answers to {len(cases)} cases: {err.strip()}")
        return answers

    @staticmethod
    def known_after(answer):
        """The names that the program lists when it refuses one."""
        listed = re.search(r"known: ([\w, ]+)", answer.get("error", ""))
        return set(listed.group(1).split(", ")) if listed else set()

    @staticmethod
    def value(text):
        return text == "true" if text in ("true", "false") else float(text)

    def cases(self, case, params, needed):
        """Without the documented defaults, with them, and with a parameter that nothing has."""
        given = {name: self.value(text) for name, text in params.items() if text}
        return [{**case, "params": needed}, {**case, "params": {**given, **needed}}, {**case, "params": {**needed, UNKNOWN: 1}}]

    def problem(self, answers, params):
        plain, full, refused = answers
        for answer in (plain, full):
            if "error" in answer:
                return answer["error"]
        if plain != full:
            return "the documented defaults are not the program's"
        if "error" not in refused:
            return "the program takes any parameter"
        known = self.known_after(refused) - EVERYWHERE
        documented = set(params) - EVERYWHERE
        if known - documented:
            return f"not documented: {', '.join(sorted(known - documented))}"
        return f"no such parameter: {', '.join(sorted(documented - known))}" if documented - known else ""

    def rule_cases(self, name, params):
        steps = [{"keys": ["a"], "grads": [[0.5, -2]]}, {"keys": ["a"], "grads": [[0.1, 1]]}]
        return self.cases({"op": "optimizer", "name": name, "rows": {"a": [0.3, -0.7]}, "steps": steps}, params, {})

    def schedule_cases(self, name, params):
        needed = {"initial_learning_rate": 0.1, **{p: 5 for p, default in params.items() if not default}}
        if name == "piecewise":
            needed = {"boundaries": [1], "values": [1, 2]}
        return self.cases({"op": "schedule", "name": name, "steps": [0, 3, 7, 40]}, params, needed)

    def initializer_cases(self, name, params):
        return self.cases({"op": "initializer", "name": name, "seed": 1, "table": "t", "keys": [1, 2], "dim": 5}, params, {})

    # --- all -------------------------------------------------------------------------------------

    def check(self):
        self.check_links()
        self.check_paths()
        self.check_readmes()
        if self.embers:
            status, out, err = self.run("help", "--json")
            if status != 0:
                self.mistake("docs/commands.md", 1, f"embers help --json failed: {err.strip()}")
            else:
                self.check_with(json.loads(out))
                self.check_parameters()
        return sorted(self.mistakes)

    def check_with(self, program):
        self.job = program["job"]
        self.aliases = {alias: command["name"].removeprefix("embers").strip()
                        for command in program["commands"] for alias in command.get("aliases", [])}
        commands = {command["name"].removeprefix("embers").strip():
                    {name: option.get("default", "").strip("[]") or None
                     for option in command["options"] for name in [option["name"], *option.get("aliases", [])]
                     if name.startswith("-")}
                    for command in program["commands"]}
        self.check_commands(commands)
        self.check_keys(self.job)
        self.check_uses(commands, self.job)


# --- self-test -----------------------------------------------------------------------------------

FAKE = r"""#!/usr/bin/env python3
import json, sys
def option(name, default=None):
    return {"name": name, "default": default} if default else {"name": name}
if sys.argv[1:] == ["help", "--json"]:
    print(json.dumps({"commands": [{"name": "embers", "options": [option("--help")]},
                                   {"name": "train", "aliases": ["learn"], "options": [option("JOB"), {**option("--report"), "aliases": ["-r"]}, option("--pin", "0")]}],
                      "job": {"training": ["mode", "epochs"], "model": ["name"]}}))
for case in map(json.loads, sys.stdin) if sys.argv[1:] == ["op", "--lines"] else []:
    names = {"optimizer": {"sgd": {"learning_rate": 0.01}}, "schedule": {"constant": {}}, "initializer": {"ones": {}}}[case["op"]]
    if case["name"] not in names:
        print(json.dumps({"error": "unknown; known: " + ", ".join(names)}))
    else:
        known = names[case["name"]]
        wrong = [p for p in case.get("params", {}) if p not in known and p != "initial_learning_rate"]
        print(json.dumps({"error": "unknown; known: " + ", ".join(known)} if wrong and known else
                         {"error": "unknown"} if wrong else {"value": {**known, **case.get("params", {})}}))
"""

GOOD = {
    "README.md": "# A\n\n[docs](docs/commands.md) [keys](docs/job.md#training) [rules](docs/optimizers.md)\n",
    "docs/README.md": "# Docs\n",
    "docs/commands.md": "## embers train\n\n[index](README.md) `embers learn`\n\n| option | default | meaning |\n|---|---|---|\n| `--report`, `-r` | none | a |\n"
                        "| `--pin` | `0` | b |\n",
    "docs/job.md": "## [training]\n\n| key | default |\n|---|---|\n| `mode` | x |\n| `epochs` | 1 |\n\n## [model]\n\n| key | |\n|---|---|\n"
                   "| `name` | |\n",
    "docs/optimizers.md": "## Update rules\n\n| name | parameters (default) |\n|---|---|\n| `sgd` | `learning_rate` (0.01) |\n\n"
                          "## Schedules\n\n| name | parameters (default) |\n|---|---|\n| `constant` | none |\n\n"
                          "## Initializers\n\n| name | parameters (default) |\n|---|---|\n| `ones` | none |\n",
    "base/a.h": "",
    "base/README.md": "# base\n\n`a.h`, `base/a.h`, `a.*`\n",
}

# What is changed (file, old, new; with "" as old, new is appended), and which mistake must then be found.
PLANTED = [
    (None, "", "", None),
    ("README.md", "", "[x](docs/none.md)", "README.md:4: the link leads nowhere: docs/none.md"),
    ("README.md", "", "[x](docs/job.md#data)", "README.md:4: there is no such heading: docs/job.md#data"),
    ("README.md", "", "`base/b.h`", "README.md:4: there is no base/b.h"),
    ("base/README.md", "", "`b.cc`", "base/README.md:4: there is no b.cc"),
    ("README.md", "", "```\nbase/gone.cc\n```", "README.md:4: there is no base/gone.cc"),
    ("README.md", "", "```", "README.md:4: this code block has no end"),
    ("README.md", "", "\n" * 150, "README.md:151: the first page has more than 150 lines"),
    ("base/sub/b.h", "", "x", "base/sub/README.md:1: the folder has no README.md"),
    ("docs/lost.md", "", "# Lost", "docs/lost.md:1: no link leads here from the README"),
    ("docs/commands.md", "| `--report`, `-r` | none | a |\n", "", "docs/commands.md:1: embers train has --report, which is not here"),
    ("docs/commands.md", ", `-r`", "", "docs/commands.md:1: embers train has -r, which is not here"),
    ("docs/commands.md", "`--report`", "`--raport`", "docs/commands.md:7: embers train has no --raport"),
    ("docs/commands.md", "`0`", "`1`", "docs/commands.md:8: embers train: the default of --pin is 0"),
    ("docs/commands.md", "`embers learn`", "", "docs/commands.md:1: embers train is also `embers learn`, which is not here"),
    ("README.md", "", "`embers learn --raport x`", "README.md:4: embers train has no --raport"),
    ("docs/commands.md", "", "\n## embers fly\n", "docs/commands.md:10: there is no command 'embers fly'"),
    ("docs/commands.md", "## embers train", "## embers", "docs/commands.md:1: there is no heading 'embers train'"),
    ("docs/job.md", "| `epochs` | 1 |\n", "", "docs/job.md:1: [training] has the key epochs, which is not here"),
    ("docs/job.md", "`epochs`", "`apochs`", "docs/job.md:6: [training] has no key apochs"),
    ("docs/job.md", "", "\n## [storage]\n", "docs/job.md:14: there is no section [storage]"),
    ("docs/job.md", "## [model]", "## [modal]", "docs/job-file.md:1: there is no heading '[model]'"),
    ("README.md", "", "`training.apochs`", "README.md:4: job files have no key training.apochs"),
    ("README.md", "", "`embers train --raport x`", "README.md:4: embers train has no --raport"),
    ("README.md", "", "`embers fly`", "README.md:4: there is no command 'embers fly'"),
    ("README.md", "", "`--raport`", "README.md:4: no command has --raport"),
    ("README.md", "", "```\nbuild/embers train a.toml --set training.apochs=1\n```", "README.md:4: job files have no key training.apochs"),
    ("README.md", "", "```toml\n[training]\napochs = 1\n```", "README.md:4: [training] has no key apochs"),
    ("README.md", "", "```toml\n[training\n```", "README.md:4: this TOML does not parse"),
    ("examples/a.toml", "", "[trainin]\n", "examples/a.toml:1: there is no section [trainin]"),
    ("docs/optimizers.md", "(0.01)", "(0.02)", "docs/optimizers.md:5: sgd: the documented defaults are not the program's"),
    ("docs/optimizers.md", "`learning_rate` (0.01)", "none", "docs/optimizers.md:5: sgd: not documented: learning_rate"),
    ("docs/optimizers.md", "`ones`", "`twos`", "docs/optimizers.md:1: 'Initializers' does not have ones"),
]


def self_test():
    """Each planted mistake must be found, with its place, and nothing in documents that are right."""
    failures = 0
    for file, old, new, expected in PLANTED:
        with tempfile.TemporaryDirectory() as tree:
            planted = dict(GOOD)
            if file:
                text = planted.get(file, "")
                planted[file] = text.replace(old, new) if old else text + new
            for path, text in planted.items():
                path = os.path.join(tree, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
            embers = os.path.join(tree, "build-fake")
            with open(embers, "w", encoding="utf-8") as out:
                out.write(FAKE)
            os.chmod(embers, 0o755)
            found = Checker(tree, embers).check()
        good = any(line.startswith(expected) for line in found) if expected else not found
        if not good:
            print(f"self-test: {new!r} in {file} gave {found}, expected {expected!r}")
            failures += 1
    return failures == 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 0 if self_test() else 1
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    mistakes = Checker(*sys.argv[1:]).check()
    for line in mistakes:
        print(line)
    return 1 if mistakes else 0


sys.exit(main())
