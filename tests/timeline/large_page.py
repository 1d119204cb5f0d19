"""Makes a timeline with many slices: large_page.py FILE [SLICES]. Needs the package (PYTHONPATH).

Nine streams of three devices that copy, compute and wait for each other, under ranges, with a host that
waits now and then; about 100,000 slices unless another number is given.
"""

import sys

import ember as torch
from ember.cuda import nvtx


def main(file, slices):
    devices = range(min(3, torch.cuda.device_count()))
    memory = [torch.zeros(256, device=f"cuda:{device}") for device in devices]
    streams = [[torch.cuda.Stream(device=device) for _ in range(3)] for device in devices]
    host = torch.zeros(256).pin_memory()
    with torch.cuda.Timeline(file) as timeline:
        for step in range(slices // (2 * len(devices) + 1)):
            with nvtx.range(f"step {step % 10}"):
                for device in devices:
                    stream = streams[device][step % 3]
                    with torch.cuda.stream(stream):
                        memory[device].copy_(host, non_blocking=True)
                        memory[device].add_(1)
                        if step % 7 == 0:
                            memory[device].mul_(2)
                    if step % 5 == 0:
                        streams[device][(step + 1) % 3].wait_stream(stream)
            if step % 20 == 0:
                stream.synchronize()
        for device in devices:
            torch.cuda.synchronize(device)
    print(timeline.summary())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
