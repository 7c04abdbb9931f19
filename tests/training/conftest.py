"""One thread for torch, as in the workers: small products lose more by sharing than they win."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
