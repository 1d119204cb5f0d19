"""What is compared with is PyTorch on the CPU: where it could use GPUs, it must not see any."""

import importlib.util
import os

if os.environ.get("EMBER_DEVICES", "").startswith("sim") and importlib.util.find_spec("torch"):
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        import torch

        torch.cuda.is_available()  # CUDA reads the variable once in a process
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]  # it would hide simulated devices, too
        if visible is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = visible
