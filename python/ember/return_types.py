"""What several results are returned as: named tuples (values, indices)."""

from ember._C.return_types import *
