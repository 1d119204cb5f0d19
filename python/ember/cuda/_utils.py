"""What tools ask of devices."""

from ember._C.cuda import _get_device_index as _get_device_index
