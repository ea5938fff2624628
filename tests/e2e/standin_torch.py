"""The part of torch that the examples use, in plain Python: numbers in place of tensors.

Laid into a directory as the package `torch`, so that the examples' own logic can be run where torch isn't.
Each process appends the numbers of the examples that it trains on to the file that STANDIN_SEEN names.
"""

from pathlib import Path

PARTS = {
    "__init__.py": """
import os, pickle, random
from torch import cuda, distributed, nn, optim
_dice = random.Random()

class device(str):
    type = "cpu"

class Tensor:
    def __init__(self, value): self.value = value
    def to(self, device): return self
    def __mul__(self, factor): return Tensor(self.value * factor)
    def __getitem__(self, numbers):
        if "STANDIN_SEEN" in os.environ:
            with open(os.environ["STANDIN_SEEN"], "a") as file: file.write(f"{numbers}\\n")
        return Tensor(self.value * len(numbers))
    def sum(self, dim, keepdim): return Tensor(self.value * 3)
    def backward(self): _pending.append(self.value)
    def item(self): return self.value

_pending = []

class Generator:
    def manual_seed(self, seed):
        self.dice = random.Random(seed)
        return self

def manual_seed(seed): _dice.seed(seed)
def randn(*size, generator): return Tensor(generator.dice.gauss(0, 1))
def tensor(values, device): return Tensor(values[0])
def save(state, file): pickle.dump(state, file)
def load(path, map_location): return pickle.loads(open(path, "rb").read())
""",
    "cuda.py": "def is_available(): return False\n",
    "distributed.py": """
class ReduceOp: MAX = 1
def init_process_group(backend): assert backend == "gloo"
def destroy_process_group(): pass
""",
    "optim.py": """
import torch
class Optimizer: pass
class AdamW(Optimizer):
    def __init__(self, parameters, lr): self.parameters, self.lr, self.speed = parameters, lr, 0.0
    def zero_grad(self): torch._pending.clear()
    def step(self):
        slope = sum(torch._pending)
        self.speed = 0.9 * self.speed + slope
        self.parameters[0] -= self.lr * self.speed
    def state_dict(self): return {"speed": self.speed}
    def load_state_dict(self, state): self.speed = state["speed"]
""",
    "nn/__init__.py": """
import torch, time
from torch.nn import functional, parallel
class Module:
    def to(self, device): return self
class Linear(Module):
    def __init__(self, inside, outside): pass
class ReLU(Module): pass
class Sequential(Module):
    def __init__(self, *parts): self.weight = [torch._dice.random()]
    def parameters(self): return self.weight
    def __call__(self, inputs):
        time.sleep(0.002)
        return torch.Tensor(self.weight[0] * inputs.value)
    def state_dict(self): return {"weight": list(self.weight)}
    def load_state_dict(self, state): self.weight[:] = state["weight"]
""",
    "nn/functional.py": """
import torch
def mse_loss(said, meant, reduction="mean"): return torch.Tensor(said.value - meant.value)
""",
    "nn/parallel.py": "def DistributedDataParallel(model): return model\n",
}


def lay(directory: Path) -> None:
    """Make the package there."""
    for name, text in PARTS.items():
        file = directory / "torch" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
