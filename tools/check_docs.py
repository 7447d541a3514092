#!/usr/bin/env python3
"""Checks the pages: links lead somewhere, C++ in the README is code that the tests build, error
codes and make targets that exist are described."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)?(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def pages():
    return [p for p in sorted(ROOT.rglob("*.md"))
            if not any(part in ("build", ".git") for part in p.relative_to(ROOT).parts)]


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def broken_links(page):
    for target, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            yield f"{page.relative_to(ROOT)}: link to {target}: expected a file, got none"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            yield f"{page.relative_to(ROOT)}: link to {target}{anchor}: no such heading"


def squeeze(text):
    return re.sub(r"\s+", "", re.sub(r"//[^\n]*", "", text))


def unbuilt_examples():
    sources = squeeze("".join(p.read_text() for p in sorted((ROOT / "examples").rglob("*.cpp"))))
    for block in re.findall(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        for line in filter(None, map(squeeze, block.splitlines())):
            if line not in sources:
                yield f"README.md: expected code of examples/, got: {line}"


def undescribed():
    header = (ROOT / "include/fusedmoe/error.h").read_text()
    errors = (ROOT / "docs/errors.md").read_text()
    for code in re.findall(r"^  (k\w+),", header, re.MULTILINE):
        if code not in errors:
            yield f"docs/errors.md: expected a row for {code}, got none"
    makefile = (ROOT / "Makefile").read_text()
    for page in pages():
        for target in re.findall(r"`make ([a-z][a-z0-9-]*)", page.read_text()):
            if not re.search(rf"^{target}:", makefile, re.MULTILINE):
                yield f"{page.relative_to(ROOT)}: `make {target}`: no such target"


def main():
    found = [line for page in pages() for line in broken_links(page)]
    found += [*unbuilt_examples(), *undescribed()]
    print("\n".join(found) if found else f"pages: {len(pages())} checked")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
