"""Streams and events."""

from ember._C.cuda import Event as Event, ExternalStream as ExternalStream, Stream as Stream
