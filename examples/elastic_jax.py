"""JAX training that keeps its global batch while GPUs come and go; nothing starts again.

    weir submit -p vision --gpus 1 --elastic 1:4 -- python elastic_jax.py --steps 400

`elastic_plain.py` has to be in the same directory: its processes meet, share the shards of each step out, and
sum the gradients in the memory of the machine. JAX compiles the model for the one GPU of each pod.
"""

from typing import Any

import elastic_plain
import jax
import jax.numpy as jnp
import numpy as np

FEATURES, HIDDEN = 8, 32


def main() -> None:
    """Train until the steps are done, whatever number of processes there is."""
    chance = np.random.default_rng(1)
    parameters = {
        "w1": chance.normal(size=(FEATURES, HIDDEN)).astype(np.float32) / FEATURES**0.5,
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": chance.normal(size=HIDDEN).astype(np.float32) / HIDDEN**0.5,
        "b2": np.zeros((), np.float32),
    }
    elastic_plain.train(parameters, gradient)


def loss(parameters: dict[str, Any], inputs: Any, targets: Any) -> Any:
    """Return the squared error of a small network over a shard: HERE is your model."""
    hidden = jnp.tanh(inputs @ parameters["w1"] + parameters["b1"])
    return 0.5 * jnp.sum((hidden @ parameters["w2"] + parameters["b2"] - targets) ** 2)


gradient_on_gpu = jax.jit(jax.grad(loss))


def gradient(parameters: dict[str, Any], inputs: Any, targets: Any) -> dict[str, Any]:
    """Return the gradient in the memory of the machine, where processes exchange it."""
    return jax.device_get(gradient_on_gpu(parameters, inputs, targets))


if __name__ == "__main__":
    main()
