# SPDX-License-Identifier: GPL-2.0
"""The commands of sg_io that judge files. sg_io starts this with the path of its program, the name
of the command, and its arguments."""

import importlib
import pathlib
import signal
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from judge import text  # noqa: E402

MODULES = {"import": "importing"}   # the others have the names of the commands


def main(program: str, name: str, *words: str) -> int:
    text.begin()
    try:
        module = importlib.import_module(f"judge.{MODULES.get(name, name)}")
        status: int = module.main(program, list(words))
        sys.stdout.flush()
        return status
    except text.Ended as error:
        text.say(str(error))
        return error.status
    except ModuleNotFoundError as error:
        text.say(f"{error.name}: no such Python module, which 'sg_io {name}' needs: install "
                 f"python3-{error.name}")
        return text.DEVICE
    except MemoryError:
        text.say("no memory")
        return text.DEVICE
    except OSError as error:
        # What reads or writes another file says which.
        text.give_up(error)
        return text.DEVICE


if __name__ == "__main__":
    # As other programs do: end when the reader of a pipe has gone, and at once at Ctrl-C.
    for number in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    sys.exit(main(*sys.argv[1:]))
