"""fetch_headers.py TARGET: unpacks the source package of ducc0 from PyPI, or what pip asks in its
place, as the folder TARGET. The library is compiled with its headers (docs/dependencies.md). One
version, so that everyone gets the same bits."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

VERSION = "0.42.0"
ARCHIVE = f"ducc0-{VERSION}.tar.gz"
SHA256 = "4e11c59b53a43355b053aebb2a62ee16eebeed026575f7d216cf09d437ce52ef"
HEADER = "src/ducc0/fft/fftnd_impl.h"
JSON = "application/vnd.pypi.simple.v1+json"


def run_pip(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "pip", *arguments], **options)


def configured(option):
    """What pip's environment or files say of an option."""
    return (os.environ.get("PIP_" + option.upper().replace("-", "_"))
            or run_pip("config", "get", "global." + option, capture_output=True, text=True).stdout.strip())


def read(url, accept="*/*"):
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def ask_index(folder):
    """The archive alone. pip would install what builds a package, only to read its name."""
    if configured("no-index"):
        raise ValueError("pip is told to ask none")
    index = configured("index-url") or "https://pypi.org/simple"
    page = index.rstrip("/") + "/ducc0/"
    url, = (file["url"] for file in json.loads(read(page, JSON))["files"] if file["filename"] == ARCHIVE)
    (folder / ARCHIVE).write_bytes(read(urllib.parse.urljoin(page, url)))


def ask_pip(folder):
    """For indexes that need more: a proxy, a password, several of them."""
    run_pip("download", "-q", "--retries", "1", "--timeout", "20", "--no-deps", "--no-binary", "ducc0",
            "-d", folder, f"ducc0=={VERSION}", check=True)


def fetch(target):
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        made = pathlib.Path(made)
        try:
            ask_index(made)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"the index: {error}; asking pip", file=sys.stderr)
            ask_pip(made)
        digest = hashlib.sha256((made / ARCHIVE).read_bytes()).hexdigest()
        if digest != SHA256:
            raise ValueError(f"{ARCHIVE} has the SHA-256 {digest}, expected {SHA256}")
        shutil.unpack_archive(made / ARCHIVE, made)
        folder, = (path.parents[len(pathlib.PurePath(HEADER).parts) - 1] for path in made.glob("*/" + HEADER))
        if target.exists():
            shutil.rmtree(target)
        folder.rename(target)


def main():
    target = pathlib.Path(sys.argv[1])
    if (target / HEADER).exists():
        return
    try:
        fetch(target)
    except (subprocess.CalledProcessError, ValueError, OSError) as error:
        sys.exit(f"fetch_headers: could not get ducc0 {VERSION}: {error}")


if __name__ == "__main__":
    main()
