#!/usr/bin/env python3
"""Checks that src/ flows one way: every #include against the table in src/layers.txt.

A folder may include itself and what its row names; public headers are open to all, and a folder
with the row `public` may include nothing else of the project. Names of models may appear only in
the files that the row `models` lists.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
MODELS = re.compile(
    r"afmoe|dbrx|deep_?seek|dots1|ernie|flex_?olmo|gemma|glm_?4|gpt[-_]?oss|granite|grok|hunyuan|"
    r"jamba|kimi|lfm2|llama|longcat|minimax|mixtral|nemotron|olmoe|phi_?moe|qwen", re.IGNORECASE)


def read_table(path):
    """{folder: [allowed prefixes]}, longest folder first when looked up."""
    table = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            folder, _, allowed = line.partition(":")
            table[folder.strip()] = allowed.split()
    return table


def row_of(table, name):
    """The most specific row that a file or include belongs to."""
    rows = [row for row in table if name == row or name.startswith(row + "/")]
    return max(rows, key=len, default=None)


def resolve(source, include):
    """An include as a path below src/, or None for files of elsewhere (public headers)."""
    beside = source.parent / include
    if beside.exists():
        return beside.relative_to(SRC).as_posix()
    return None if include.startswith("fusedmoe/") else include


def offences(table, source):
    name = source.relative_to(SRC).as_posix()
    row = row_of(table, name)
    text = source.read_text()
    if row is None:
        yield f"src/{name}: expected a row for its folder in src/layers.txt, got none"
        return
    for include in INCLUDE.findall(text):
        target = resolve(source, include)
        if target is None or row_of(table, target) == row:
            continue
        if not any(target == a or row_of(table, target) == a for a in table[row]):
            allowed = " ".join(table[row]) or "nothing of src/"
            yield f"src/{name}: {row}/ may include {allowed}, got \"{include}\""
    if not any(name == m or name.startswith(m + "/") for m in table["models"]):
        found = MODELS.search(COMMENT.sub("", INCLUDE.sub("", text)))
        if found:
            yield (f"src/{name}: names a model ('{found.group(0)}'); "
                   "only checkpoint/families may: make it a field of the description")


def main():
    table = read_table(SRC / "layers.txt")
    sources = [p for p in sorted(SRC.rglob("*")) if p.suffix in (".h", ".cpp", ".inl")]
    found = [line for source in sources for line in offences(table, source)]
    print("\n".join(found) if found else f"layering: {len(sources)} files flow one way")
    return 1 if found or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
