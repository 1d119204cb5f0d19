"""What several results are returned as: named tuples of two."""

from ember._C.return_types import *
