"""``python -m archloom``: the command line."""

import signal


def main() -> None:
    """Run one command. Interrupts wait until its modules are imported: within, they would end in tracebacks."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from archloom.tvm_backend.cli import entry

    entry(before)


if __name__ == "__main__":
    main()
