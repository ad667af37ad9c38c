"""Settings that somebody tried once and forgot: variables that slow a machine down and look like its nature. Pure."""

from collections.abc import Mapping

# Name -> (values that do it; None: any), what it does.
SETTINGS: dict[str, tuple[tuple[str, ...] | None, str]] = {
    "NCCL_P2P_DISABLE": (("1",), "GPUs exchange data through host memory"),
    "NCCL_SHM_DISABLE": (("1",), "ranks of one host exchange data over the network stack"),
    "NCCL_IB_DISABLE": (("1",), "hosts exchange data over TCP"),
    "NCCL_NVLS_ENABLE": (("0",), "no reduction inside NVSwitch"),
    "NCCL_PROTO": (None, "NCCL's own choice of protocol is overruled"),
    "NCCL_ALGO": (None, "NCCL's own choice of algorithm is overruled"),
    "NCCL_P2P_LEVEL": (None, "NCCL's own choice of paths is overruled"),
    "NCCL_DEBUG": (("INFO", "TRACE"), "NCCL writes a log while it is measured"),
    "CUDA_LAUNCH_BLOCKING": (("1",), "every kernel is waited for"),
    "CUDA_DEVICE_MAX_CONNECTIONS": (("1",), "streams share one queue"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": (None, "every tensor is allocated anew"),
    "TORCH_DISTRIBUTED_DEBUG": (("INFO", "DETAIL"), "collectives are checked while they are measured"),
    "TORCH_NCCL_BLOCKING_WAIT": (("1",), "collectives block the host"),
    "TORCHDYNAMO_DISABLE": (("1",), "nothing is compiled"),
    "TORCH_COMPILE_DISABLE": (("1",), "nothing is compiled"),
    "NVIDIA_TF32_OVERRIDE": (("0",), "no TF32 in any library"),
    "PYTHONASYNCIODEBUG": (None, "asyncio checks itself"),
    "PYTHONPROFILEIMPORTTIME": (None, "imports are timed"),
    "LD_PRELOAD": (None, "a library of somebody's is in every process"),
}
# The same, of variables that are as often meant as forgotten: for who looks at a machine, not for every campaign.
CHOICES: dict[str, tuple[tuple[str, ...] | None, str]] = {
    "NCCL_MIN_NCHANNELS": (None, "the channels of collectives are fixed"),
    "NCCL_MAX_NCHANNELS": (None, "the channels of collectives are fixed"),
    "NCCL_CONF_FILE": (None, "further NCCL settings are in a file"),
    "PYTORCH_CUDA_ALLOC_CONF": (None, "the allocator of torch is set up differently"),
    "TORCH_LOGS": (None, "torch writes a log"),
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": (None, "everything is compiled anew"),
    "OMP_NUM_THREADS": (None, "the number of processor threads is fixed"),
    "PYTHONMALLOC": (None, "Python's allocator is changed"),
    "PYTHONDEVMODE": (None, "Python checks more"),
    "COMPUTE_SANITIZER": (None, "a checker runs along"),
    "CUDA_INJECTION64_PATH": (None, "a profiler runs along"),
}


def leftover_settings(
    environment: Mapping[str, str], wanted: Mapping[str, str] | None = None, *, with_choices: bool = False
) -> list[str]:
    """A sentence for each; `wanted` names variables that were asked for in this campaign, which are no leftovers."""
    found = []
    for name, (values, what) in {**SETTINGS, **(CHOICES if with_choices else {})}.items():
        value = environment.get(name, "")
        if value and name not in (wanted or {}) and (values is None or value.upper() in values):
            found.append(f"{name}={value} is set: {what}")
    return found
