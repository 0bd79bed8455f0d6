"""What a shell asks at every TAB, so nothing is imported here that it does not need.

eval "$(turngrid-completion bash)"          in ~/.bashrc; zsh, in ~/.zshrc, after compinit
turngrid-completion fish | source           in ~/.config/fish/config.fish
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from train.completion.shells import SHELLS, script


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. ``query LINE BREAKS``, which the printed functions ask, is no part of the command's interface."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["query"]:
        from train.completion.candidates import completions

        print("\n".join(completions(*given[1:])))
        return 0
    if len(given) == 1 and given[0] in SHELLS:
        print(script(given[0]))
        return 0
    print(f"{__doc__}\nSHELL: one of {', '.join(SHELLS)}", file=sys.stdout if "--help" in given else sys.stderr)
    return 0 if "--help" in given else 2


if __name__ == "__main__":
    sys.exit(main())
