"""What becomes of a campaign whose measuring does not come to its end: a mark, or nothing where nothing ran."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from perfguard.errors import Interrupted, PerfguardError, StorageError, StoreError, SupervisorError, UsageError
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
        if "--resume" in next_step and (told := resumable(error, f"{len(trials)} trials are stored", next_step)):
            raise told from error
        raise


def resume_command(campaign: Campaign, store: Store) -> str:
    """Of a comparison, or of the search by experiment that it answers a question of."""
    search = campaign.method.get("search")
    command = f"explain --experiment --resume {search}" if search else f"compare --resume {campaign.id}"
    return f"perfguard {command} --db {store.path}"


def resumable(error: BaseException, is_stored: str, next_step: str) -> PerfguardError | None:
    """The error with the command that goes on, where going on helps: a full folder or database, a killed supervisor."""
    if isinstance(error, StorageError):  # a variable can move the folder: its name and value go before a command
        return StorageError(f"{error}; {is_stored}", f"{error.next_step} {next_step}")
    if isinstance(error, StoreError):
        return StoreError(str(error), f"{error.next_step}, then {next_step}" if error.next_step else next_step)
    if isinstance(error, SupervisorError):
        return SupervisorError(f"{error}; {is_stored}", next_step)
    return None


def end_search(error: BaseException, search: Campaign, store: Store, num_answered: int) -> None:
    """A search by experiment that does not come to its end: marked, and raised anew with the command that goes on."""
    with suppress(StoreError):  # it may be the very reason
        store.set_status(search.id, "interrupted")
    is_stored = f"{num_answered} question{' is' if num_answered == 1 else 's are'} answered"
    next_step = f"perfguard explain --experiment --resume {search.id} --db {store.path}"
    if isinstance(error, Interrupted | KeyboardInterrupt):
        raise Interrupted(f"interrupted; {is_stored}", next_step) from None
    if next_step not in getattr(error, "next_step", "") and (told := resumable(error, is_stored, next_step)):
        raise told from error
