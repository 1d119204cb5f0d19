"""fetch_headers.py TARGET: unpacks the source package of ducc0 from PyPI, or what pip asks in its
place, as the folder TARGET. The library is compiled with its headers (docs/dependencies.md). One
version, so that everyone gets the same bits."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

REQUIREMENT = "ducc0==0.42.0"
HEADER = "src/ducc0/fft/fftnd_impl.h"


def fetch(target):
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--retries", "1", "--timeout", "20",
                        "--no-deps", "--no-binary", "ducc0", "-d", made, REQUIREMENT], check=True)
        archive, = pathlib.Path(made).glob("ducc0-*.tar.gz")
        shutil.unpack_archive(archive, made)
        folder, = (path.parents[len(pathlib.PurePath(HEADER).parts) - 1]
                   for path in pathlib.Path(made).glob("*/" + HEADER))
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
        sys.exit(f"fetch_headers: could not get {REQUIREMENT}: {error}")


if __name__ == "__main__":
    main()
