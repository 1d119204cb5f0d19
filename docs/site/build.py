"""Makes the documentation site: build.py OUT WORK [PYTHON_PACKAGE].

The pages are README.md with every document that links lead to, the public headers, and the Python
package if it has been built. Warnings are errors; check.py then looks at what came out.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import check
import headers
import stubs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def documents():
    """README.md and all documents that can be reached from it, by their paths."""
    found, todo = {}, ["README.md"]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = (ROOT / name).read_text()
            for _, _, target, _ in LINK.findall(found[name]):
                if target.endswith(".md") and "://" not in target:
                    todo.append(str((ROOT / name).parent.joinpath(target).resolve().relative_to(ROOT)))
    return found


def copy_documents(out):
    """The documents in the same folders with their pictures, and with links among the pages only:
    sources are no pages."""
    pages = documents()
    for name, text in pages.items():
        def link(match, name=name):
            picture, label, target, _ = match.groups()
            path = (ROOT / name).parent.joinpath(target).resolve()
            if picture and path.is_file():
                place = out / path.relative_to(ROOT)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
                return match[0]
            if path == ROOT / "README.md":
                return match[0].replace("README.md", "index.md")
            if path.exists() and target and str(path.relative_to(ROOT)) not in pages:
                return label if "`" in label else f"`{label}`"
            return match[0]  # a page, another site, or code that looks like a link
        text = LINK.sub(link, text)
        if name == "README.md":
            name, text = "index.md", text + (HERE / "contents.md").read_text()
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)


def covered():
    """What docs/coverage.md says is there, by its names in Python; without those of the extension and
    private ones, which tools know without a reference."""
    rows = re.findall(r"^\| `([\w.]+)` \|.*\| done \|$", (ROOT / "docs/coverage.md").read_text(), re.M)
    return [f"ember.{name}" for name in rows
            if not name.startswith("_C.") and not name.rpartition(".")[2].startswith("_")]


def main():
    out, work = (pathlib.Path(x).resolve() for x in sys.argv[1:3])
    package = pathlib.Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    pages = work / "pages"
    pages.mkdir()
    copy_documents(pages)
    headers.write_pages(ROOT, work, pages)
    intro = (HERE / "python.rst").read_text()
    names = []
    if package:
        names = stubs.write_pages(package, intro, pages) + covered()
    else:
        (pages / "python").mkdir()
        (pages / "python/index.rst").write_text(
            intro + "\n.. note::\n\n   This site was made without the package: ``./dev build``, then "
            "``./dev docs``.\n")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-c", HERE, "-d", work / "doctrees",
                           "-b", "html", "-j", "auto", "-q", "-W", "--keep-going", pages, out])
    if done.returncode:
        raise SystemExit("the site has the errors above")
    check.check_site(out, ROOT, names)


if __name__ == "__main__":
    main()
