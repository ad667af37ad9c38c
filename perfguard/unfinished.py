"""What becomes of a campaign whose measuring does not come to its end: a mark, or nothing where nothing ran."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from perfguard.errors import Interrupted, StoreError, UsageError
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
        raise
