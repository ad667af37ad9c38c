"""Any server that speaks OpenAI's /v1/completions and no more: no counters, no cache to flush, prompts are texts."""

from runners.engines.dialect import Dialect, openai_models

OPENAI = Dialect(
    name="openai",
    wire="openai",
    command="",  # every one is started in its own way
    ready=("/v1/models",),
    models=openai_models,
)
