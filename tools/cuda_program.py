"""A job that uses a GPU through the driver alone: python cuda_program.py WORD...

    devices          print the number of GPUs that it can use
    hold:MIB         allocate memory, and keep it
    fill             allocate until the driver refuses, and print the MiB
    spin:S           compute for S seconds, at least once
    burst:MS:MS:S    compute for the first of these times in each of the second, for S seconds
    cpu:S            compute on a processor for S seconds
    sleep:S          do nothing for S seconds
    fault            write to an address that it doesn't own

It prints each word when it is done, and the time.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from functools import cache

PTX = rb"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
  .reg .pred %going;
  .reg .u64 %now, %begun, %most, %passed;
  ld.param.u64 %most, [nanoseconds];
  mov.u64 %begun, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %passed, %now, %begun;
  setp.lt.u64 %going, %passed, %most;
  @%going bra again;
  ret;
}
.visible .entry fault(.param .u64 address)
{
  .reg .u64 %to;
  .reg .u32 %one;
  ld.param.u64 %to, [address];
  mov.u32 %one, 1;
  st.global.u32 [%to], %one;
  ret;
}
"""
_BLOCKING_SYNC = 4
_SLICE_S = 0.01
_FILL_MIB = 64


class Gpu:
    """The first GPU that this process can use."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._check(self._cuda.cuInit(0))
        device, self._context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._cuda.cuDeviceGet(ctypes.byref(device), 0))
        self._cuda.cuDevicePrimaryCtxSetFlags_v2(device, _BLOCKING_SYNC)  # a wait takes no processor
        self._check(self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device))
        self._check(self._cuda.cuCtxSetCurrent(self._context))
        self._check(self._cuda.cuModuleLoadData(ctypes.byref(module), PTX))
        self._kernels = {name: ctypes.c_void_p() for name in (b"spin", b"fault")}
        for name, kernel in self._kernels.items():
            self._check(self._cuda.cuModuleGetFunction(ctypes.byref(kernel), module, name))

    def allocate(self, mib: int) -> bool:
        """Take memory; False if the driver refuses."""
        place = ctypes.c_uint64()
        return self._cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(mib << 20)) == 0

    def spin(self, seconds: float) -> None:
        """Compute for this time."""
        self._run(b"spin", int(seconds * 1e9))

    def fault(self) -> None:
        """Write to an address that isn't mapped: the driver ends the work of this process."""
        self._run(b"fault", 0x10)

    def _run(self, name: bytes, number: int) -> None:
        value = ctypes.c_uint64(number)
        values = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        shape = (1, 1, 1, 1, 1, 1, 0, None)
        self._check(self._cuda.cuLaunchKernel(self._kernels[name], *shape, values, None))
        self._check(self._cuda.cuCtxSynchronize())

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise SystemExit(f"the driver answers {code}")


def devices() -> int:
    """Return the number of GPUs that this process can use."""
    cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    if cuda.cuInit(0) == 0:
        cuda.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def run(gpu: Callable[[], Gpu], name: str, numbers: list[float]) -> object:
    """Do what a word says; return what is to be printed."""
    until_s = time.monotonic() + (numbers[-1] if numbers else 0.0)
    if name == "devices":
        return devices()
    if name == "hold":
        return gpu().allocate(int(numbers[0]))
    if name == "fill":
        return fill(gpu())
    if name == "fault":
        return gpu().fault()
    if name == "spin":
        gpu().spin(_SLICE_S)
    while (begun_s := time.monotonic()) < until_s:
        if name == "spin":
            gpu().spin(_SLICE_S)
        elif name == "burst":
            gpu().spin(numbers[0] / 1e3)
            time.sleep(max(0.0, begun_s + numbers[1] / 1e3 - time.monotonic()))
        elif name == "cpu":
            sum(range(10_000))
        else:
            time.sleep(until_s - begun_s)
    return ""


def fill(gpu: Gpu) -> int:
    """Allocate until the driver refuses; return the MiB."""
    filled = 0
    while gpu.allocate(_FILL_MIB):
        filled += _FILL_MIB
    return filled


def main(words: list[str]) -> None:
    """Do what the words say, one after another."""
    gpu = cache(Gpu)
    for word in words:
        name, *parts = word.split(":")
        print(word, run(gpu, name, [float(part) for part in parts]), f"{time.time():.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
