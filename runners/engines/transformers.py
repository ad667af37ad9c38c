"""`transformers serve`: strict about fields, serves one request at a time, ends its streams without a word."""

from runners.engines.dialect import Dialect, openai_models

TRANSFORMERS = Dialect(
    name="transformers",
    wire="transformers",
    command="{python} -m transformers.cli.transformers serve {model} --host {host} --port {port}",
    modules=("transformers",),
    distributions=("transformers",),
    ready=("/health",),
    models=openai_models,
)
