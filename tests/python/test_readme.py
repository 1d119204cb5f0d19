"""The README's Python examples, as they stand there."""

import pathlib
import re

import pytest

import ember

pytestmark = pytest.mark.once

README = pathlib.Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(max(1, len(EXAMPLES))))
def test_example(number, capsys):
    if ember.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    exec(compile(EXAMPLES[number], f"README.md example {number + 1}", "exec"), {})
    assert capsys.readouterr().out.strip()
