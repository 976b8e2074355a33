"""All cells over all cores; what is done already is not done again."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from fade_trainer.compare.cells import Cell
from fade_trainer.compare.results import append_result, read_results
from fade_trainer.compare.worker import prepare, run


def run_cells(
    wanted: Iterable[Cell], results: Path, scratch: Path, cache_dir: Path | None, workers: int, sizes: dict[str, int]
) -> int:
    """Trains the cells that the file of results lacks and adds their lines as they end.

    Args:
        scratch: For trainings under way; what was cut off goes on from there the next time.
        workers: Processes; each trains on one thread.
        sizes: See `run_cell`.

    Returns:
        Cells that are missing still, because a signal stopped them.

    Raises:
        FallbackError, TrainConfigError, FadeClientError: A cell could not be trained as it should; the others are not affected.
    """
    done = {result.cell for result in read_results(results)}
    missing = [cell for cell in wanted if cell not in done]
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=prepare) as pool,
        tqdm(desc="cells", total=len(missing), unit="cell", smoothing=0) as bar,
    ):
        under_way = {pool.submit(run, cell, scratch / str(cell), cache_dir, sizes): cell for cell in missing}
        left = len(missing)
        try:
            for future in as_completed(under_way):
                result = future.result()
                if result is None:
                    continue
                append_result(results, result)
                left -= 1
                bar.set_postfix_str(f"{under_way[future]}: pass@1 {result.after['held_out']['pass@1']:.3f}", refresh=False)
                bar.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return left
