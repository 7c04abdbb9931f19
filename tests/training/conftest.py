"""One thread for torch, as in the workers: small products lose more by sharing than they win."""

import torch

torch.set_num_threads(1)
