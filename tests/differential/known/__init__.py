"""The differences that docs/differences.md documents: what is on this list does not fail.

Each one has the heading or the first words of its paragraph there, which a test looks up, and a
function that says whether a difference is of that kind. They are as narrow as they can be, as
whatever they let pass is not tested.

One module for each topic; importing it adds its rules to KNOWN.
"""

from known import (arrays, dtypes, forms, layouts, mistakes, outputs, refused,  # noqa: F401
                   values)
from known.registry import KNOWN, documented

__all__ = ["KNOWN", "documented"]
