"""The stream sanitizer: finds work on the same memory that nothing orders.

``enable_cuda_sanitizer()``, or ``EMBER_SANITIZER=1`` in the environment, has every operation watched. The classes
are for tools that report by themselves what happens, with the names that they have in torch.
"""

import dataclasses
import enum
import logging
import traceback
import typing

from ember._C.cuda._sanitizer import (ByPointer as _ByPointer, Watch as Watch, enable as _enable,
                                      enabled as _enabled, summary as summary)

DataPtr = int
StreamId = int
EventId = int
SeqNum = int

logger = logging.getLogger(__name__)


class AccessType(enum.Enum):
    READ = enum.auto()
    WRITE = enum.auto()

    def __str__(self) -> str:
        return "reading from" if self is AccessType.READ else "writing to"


class _Stack(typing.List[str]):
    """A stack that the library has noted, as traceback.StackSummary shows one."""

    def format(self) -> typing.List[str]:
        return list(self)


@dataclasses.dataclass
class Access:
    """One access of an operation; ``operator`` is the text of its schema, or a kernel's name."""

    type: AccessType
    seq_num: SeqNum
    stream: StreamId
    operator: str
    aliases: typing.List[str]
    is_output: bool
    stack_trace: typing.Any

    def _text(self) -> str:
        text = f"{self.operator}\n{self.type}"
        if self.aliases:
            text += " argument(s) " + ", ".join(self.aliases) + (", and to" if self.is_output else "")
        if self.is_output:
            text += " the output"
        return text + "\nWith stack trace:\n" + "".join(self.stack_trace.format()) + "\n"


class SynchronizationError(Exception):
    """What the sanitizer finds."""


class UnsynchronizedAccessError(SynchronizationError):
    """Two accesses that nothing orders."""

    def __init__(self, data_ptr: DataPtr, allocation_stack_trace: typing.Any,
                 current_access: Access, previous_access: Access) -> None:
        self.data_ptr = data_ptr
        self.allocation_stack_trace = allocation_stack_trace
        self.current_access = current_access
        self.previous_access = previous_access

    def __str__(self) -> str:
        text = (f"============================\nCSAN detected a possible data race on tensor with data pointer "
                f"{self.data_ptr}\nAccess by stream {self.current_access.stream} during kernel:\n"
                f"{self.current_access._text()}"
                f"Previous access by stream {self.previous_access.stream} during kernel:\n"
                f"{self.previous_access._text()}")
        if not self.allocation_stack_trace:
            return text + "Trace for tensor allocation not found."
        return (text + "Tensor was allocated with stack trace:\n" +
                "".join(self.allocation_stack_trace.format()))


class _NeverWrittenError(SynchronizationError):
    """A read of bytes that were never written, on a simulated device."""

    def __init__(self, data_ptr: DataPtr, allocation_stack_trace: typing.Any,
                 current_access: Access) -> None:
        self.data_ptr = data_ptr
        self.allocation_stack_trace = allocation_stack_trace
        self.current_access = current_access

    def __str__(self) -> str:
        text = (f"============================\nCSAN detected a read of memory that was never written on tensor "
                f"with data pointer {self.data_ptr}\nAccess by stream {self.current_access.stream} during kernel:\n"
                f"{self.current_access._text()}")
        if not self.allocation_stack_trace:
            return text + "Trace for tensor allocation not found."
        return (text + "Tensor was allocated with stack trace:\n" +
                "".join(self.allocation_stack_trace.format()))


class CUDASanitizerErrors(Exception):
    """What the operation raises that ran into them; they are kept as ``errors``."""

    def __init__(self, errors: typing.List[SynchronizationError]) -> None:
        self.errors = errors

    def __str__(self) -> str:
        return f"detected {len(self.errors)} errors"


def _errors_of(found: typing.List[typing.Any]) -> CUDASanitizerErrors:
    """The exception for what the library has found."""
    def access(side: typing.Any) -> Access:
        writes, number, stream, name, arguments, is_output, stack = side
        return Access(AccessType.WRITE if writes else AccessType.READ, number, stream, name,
                      arguments.split(", ") if arguments else [], is_output, _Stack([stack]))

    def error(data_ptr: DataPtr, allocation: str, now: typing.Any, before: typing.Any) -> SynchronizationError:
        stack = _Stack([allocation]) if allocation else None
        if before is None:
            return _NeverWrittenError(data_ptr, stack, access(now))
        return UnsynchronizedAccessError(data_ptr, stack, access(now), access(before))

    return CUDASanitizerErrors([error(*each) for each in found])


class ArgumentHandler:
    """Which memory the arguments of an operation are, by the operation's schema."""

    def __init__(self) -> None:
        self.dataptrs_read: typing.Set[DataPtr] = set()
        self.dataptrs_written: typing.Set[DataPtr] = set()
        self.tensor_aliases: typing.Dict[DataPtr, typing.List[str]] = {}
        self.outputs: typing.Set[DataPtr] = set()

    def _add(self, value: typing.Any, is_write: bool, name: typing.Optional[str],
             is_output: bool = False) -> None:
        if isinstance(value, (list, tuple)):
            for each in value:
                self._add(each, is_write, name, is_output)
            return
        if not getattr(value, "is_cuda", False):
            return
        pointer = value.data_ptr()
        (self.dataptrs_written if is_write else self.dataptrs_read).add(pointer)
        aliases = self.tensor_aliases.setdefault(pointer, [])
        if name is not None:
            aliases.append(name)
        if is_output:
            self.outputs.add(pointer)

    def parse_inputs(self, schema: typing.Any, args: typing.Any, kwargs: typing.Any, *,
                     is_factory: bool = False) -> None:
        """With ``is_factory`` tensors are made like an argument, which is not read."""
        for position, argument in enumerate(schema.arguments):
            if position < len(args):
                value = args[position]
            elif argument.name in kwargs:
                value = kwargs[argument.name]
            else:
                continue
            is_write = argument.alias_info is not None and argument.alias_info.is_write
            if not (is_factory and not is_write):
                self._add(value, is_write, argument.name)

    def parse_outputs(self, *outputs: typing.Any, is_factory: bool = False) -> None:
        """``parse_outputs(outputs)``, or ``parse_outputs(schema, outputs)``."""
        self._add(outputs[-1], True, None, is_output=not is_factory)


class EventHandler:
    """Told what happens, finds what is not ordered. What is unknown is created on the fly."""

    def __init__(self) -> None:
        self._rule = _ByPointer()
        self._allocations: typing.Dict[DataPtr, typing.Any] = {}
        self._streams: typing.Set[StreamId] = {0}
        self._events: typing.Set[EventId] = set()
        # What an error says of a launch: of all that later ones may run into, and as many others.
        self._launches: typing.Dict[SeqNum, typing.Any] = {}
        self._most_launches = 1000

    @staticmethod
    def _stack() -> traceback.StackSummary:
        stack = traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)
        stack.reverse()
        return stack

    def _handle_kernel_launch(self, stream: StreamId, read_only: typing.Iterable[DataPtr],
                              read_write: typing.Iterable[DataPtr],
                              outputs: typing.Iterable[DataPtr], operator: str,
                              tensor_aliases: typing.Dict[DataPtr, typing.List[str]]
                              ) -> typing.List[SynchronizationError]:
        read, written, made = list(read_only), list(read_write), set(outputs)
        for pointer in read + written:
            self._ensure_tensor(pointer)
        self._ensure_stream(stream)
        if len(self._launches) >= self._most_launches:
            self._launches = {kept: self._launches[kept] for kept in self._rule.kept()
                              if kept in self._launches}
            self._most_launches = max(1000, 2 * len(self._launches))
        found = self._rule.launch(stream, read, written)
        number = self._rule.launched()
        self._launches[number] = (operator, tensor_aliases, made, self._stack())

        def access(pointer: DataPtr, writes: bool, of: SeqNum, on: StreamId) -> Access:
            operator, aliases, made, stack = self._launches[of]
            return Access(AccessType.WRITE if writes else AccessType.READ, of, on, operator,
                          aliases[pointer], pointer in made, stack)

        return [UnsynchronizedAccessError(pointer, self._allocations[pointer],
                                          access(pointer, writes, number, stream),
                                          access(pointer, before_writes, before, on))
                for pointer, writes, before, before_writes, on in found]

    def _ensure_tensor(self, pointer: DataPtr) -> None:
        if pointer not in self._allocations:
            logger.info("Found tensor with pointer: %s, but no matching tensor allocation in the "
                        "trace. Backfilling the trace now. Perhaps the sanitizer was enabled after "
                        "some torch operations?", pointer)
            self._new_tensor(pointer, None)

    def _new_tensor(self, pointer: DataPtr, stack: typing.Any) -> None:
        self._allocations[pointer] = stack
        self._rule.allocate(pointer)

    def _ensure_stream(self, stream: StreamId) -> None:
        if stream not in self._streams:
            logger.info("Found Stream with id: %s, but no matching stream creation in the trace. "
                        "Backfilling the trace now. Perhaps the sanitizer was enabled after some "
                        "torch operations?", stream)
            self._new_stream(stream)

    def _new_stream(self, stream: StreamId) -> None:
        self._streams.add(stream)
        self._rule.stream_created(stream)

    def _ensure_event(self, event: EventId) -> None:
        if event not in self._events:
            logger.info("Found Event with id: %s, but no matching event creation in the trace. "
                        "Backfilling the trace now. Perhaps the sanitizer was enabled after some "
                        "torch operations?", event)
            self._events.add(event)

    def _handle_event_creation(self, event: EventId) -> None:
        if event in self._events:
            logger.info("Found duplicate event creation in the trace for event with id: %s. "
                        "Assuming the trace for event deletion wasn't caught and backfilling it "
                        "now. Perhaps the sanitizer was enabled after some torch operations?", event)
            self._rule.event_deleted(event)
        self._events.add(event)

    def _handle_event_deletion(self, event: EventId) -> None:
        self._ensure_event(event)
        self._events.discard(event)
        self._rule.event_deleted(event)

    def _handle_event_record(self, event: EventId, stream: StreamId) -> None:
        self._ensure_event(event)
        self._ensure_stream(stream)
        self._rule.event_recorded(event, stream)

    def _handle_event_wait(self, event: EventId, stream: StreamId) -> None:
        self._ensure_event(event)
        self._ensure_stream(stream)
        self._rule.event_waited(event, stream)

    def _handle_memory_allocation(self, data_ptr: DataPtr) -> None:
        if data_ptr in self._allocations:
            logger.info("Found duplicate tensor allocation in the trace for tensor with pointer: "
                        "%s. Assuming the trace for tensor deallocation wasn't caught and "
                        "backfilling it now. Perhaps the sanitizer was enabled after some torch "
                        "operations?", data_ptr)
        self._new_tensor(data_ptr, self._stack())

    def _handle_memory_deallocation(self, data_ptr: DataPtr) -> None:
        self._ensure_tensor(data_ptr)
        del self._allocations[data_ptr]

    def _handle_stream_creation(self, stream: StreamId) -> None:
        if stream in self._streams:
            logger.info("Found duplicate Stream creation in the trace for Stream with id: %s. "
                        "PyTorch Streams are only created once, so this trace entry is ignored.",
                        stream)
            return
        self._new_stream(stream)

    def _handle_device_synchronization(self) -> None:
        self._rule.device_synchronized()

    def _handle_stream_synchronization(self, stream: StreamId) -> None:
        self._ensure_stream(stream)
        self._rule.stream_synchronized(stream)

    def _handle_event_synchronization(self, event: EventId) -> None:
        self._ensure_event(event)
        self._rule.event_synchronized(event)


class CUDASanitizer:
    """Watches every operation once ``enable()`` was called."""

    @property
    def enabled(self) -> bool:
        return _enabled()

    def enable(self) -> None:
        _enable()


cuda_sanitizer = CUDASanitizer()


def enable_cuda_sanitizer() -> None:
    """Watches every operation from now on. One that runs into a race shows it on stderr and raises
    CUDASanitizerErrors, once it is enqueued."""
    cuda_sanitizer.enable()
