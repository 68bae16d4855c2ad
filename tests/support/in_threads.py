"""Runs something on several threads at once."""

import threading
from collections.abc import Callable


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs ``work`` for each number below ``count`` on a thread; raises the first error of one."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
