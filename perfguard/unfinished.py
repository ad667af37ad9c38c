"""What becomes of a campaign whose measuring does not come to its end: a mark, or nothing where nothing ran."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from perfguard.errors import Interrupted, PerfguardError, StorageError, StoreError, UsageError
from perfguard.records import Campaign, Trial
from perfguard.store import Store, upkeep


@contextmanager
def marked_if_interrupted(campaign: Campaign, trials: Sequence[Trial], store: Store, next_step: str) -> Iterator[None]:
    """Whatever ends measuring early leaves the campaign marked as interrupted, never as running.

    One that was refused before anything ran is forgotten, so that it is not the latest result.
    """
    try:
        yield
    except BaseException as error:
        with suppress(StoreError):  # it may be the very reason
            if isinstance(error, UsageError) and not trials:
                upkeep.remove(store, [campaign.id])  # what cannot be asked for is no result
            else:
                store.set_status(campaign.id, "interrupted")
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(f"interrupted; {len(trials)} trials are stored", next_step) from None
        if isinstance(error, StorageError | StoreError) and "--resume" in next_step:
            raise _resumable(error, len(trials), next_step) from error
        raise


def _resumable(error: StorageError | StoreError, num_trials: int, next_step: str) -> PerfguardError:
    """No room in a folder, which a variable can move (its name and value go before a command), or in the database."""
    if isinstance(error, StorageError):
        return StorageError(f"{error}; {num_trials} trials are stored", f"{error.next_step} {next_step}")
    return StoreError(str(error), f"{error.next_step}, then {next_step}" if error.next_step else next_step)
