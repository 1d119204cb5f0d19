"""Makes a virtual environment use the package that is built here, as an installed one is used:
`import ember`, the command `ember`, and pytest's plugin.

    .venv/bin/python tools/link_package.py build/release/python

A package that pip has installed there stays, and is what counts; `pip uninstall` and `pip install`
take this one for theirs.
"""

import pathlib
import re
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "tools/link_package.py"


def entry_points():
    """Those of pyproject.toml, which pip would write."""
    text = (ROOT / "pyproject.toml").read_text()
    groups = {"pytest11": "project.entry-points.pytest11", "console_scripts": "project.scripts"}
    for group, section in groups.items():
        body = re.search(rf"^\[{re.escape(section)}\]\n((?:[^\[\n].*\n)+)", text, re.M)[1]
        yield f"[{group}]\n" + re.sub(r'^"?([\w.]+)"? = "(.*)"$', r"\1 = \2", body, flags=re.M)


def main():
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    version = re.search(r'EMBER_VERSION_STRING "([^"]+)"',
                        (ROOT / "ember" / "version.h").read_text())[1]
    for other in packages.glob("ember-*.dist-info"):
        if (other / "INSTALLER").read_text().strip() != NAME:
            return
    about = packages / f"ember-{version}.dist-info"
    command = pathlib.Path(sys.executable).with_name("ember")
    files = {
        packages / "ember.pth": f"{pathlib.Path(sys.argv[1]).resolve()}\n",
        about / "METADATA": f"Metadata-Version: 2.1\nName: ember\nVersion: {version}\n",
        about / "INSTALLER": NAME + "\n",
        about / "entry_points.txt": "\n".join(entry_points()),
        command: f"#!{sys.executable}\nimport sys\n\nfrom ember.__main__ import main\n\n"
                 "sys.exit(main())\n",
    }
    files[about / "RECORD"] = "".join(f"{path},,\n" for path in [*files, about / "RECORD"])
    about.mkdir(exist_ok=True)
    for path, text in files.items():
        path.write_text(text)
    command.chmod(0o755)


if __name__ == "__main__":
    main()
