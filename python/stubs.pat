# What the stubs cannot learn from the module.
^ember\._C\.Size$:
    class Size(tuple[int, ...]):
        """The sizes of a tensor: a tuple of ints."""

        def numel(self) -> int: ...
