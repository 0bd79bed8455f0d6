"""The functions that shells call at a TAB. All of them hand the line over and offer what comes back."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# How a command line of ours begins: a console script, or a module after `python -m`.
SCRIPTS = {"turngrid-train": "train", "turngrid-play": "play", "turngrid-evaluate": "evaluate"}
MODULES = {"train": "train", "train.play": "play", "experiments.evaluate": "evaluate"}
PYTHONS = ("python", "python3", "python3.11", "python3.12")

# "=" and ":" part words in bash: the Python side is told which letters do, and leaves out what stands before the last.
BASH = r"""
_turngrid() {
    mapfile -t COMPREPLY < <(@ask@ query "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2> /dev/null)
    [[ ${#COMPREPLY[@]} == 1 && -z ${COMPREPLY[0]} ]] && COMPREPLY=()
    [[ ${COMPREPLY[0]-} == *[=.] ]] && compopt -o nospace 2> /dev/null
}
_turngrid_python() {
    if [[ $COMP_LINE =~ [[:space:]]-m[[:space:]]+(@modules@)[[:space:]] ]]; then
        _turngrid
    elif [[ -n $_turngrid_before ]]; then
        "$_turngrid_before" "$@"
    fi
}
for _turngrid_load in _comp_load _completion_loader; do
    declare -F $_turngrid_load > /dev/null && $_turngrid_load python 2> /dev/null
done
[[ $(complete -p python 2> /dev/null) =~ -F\ ([^ ]+) && ${BASH_REMATCH[1]} != _turngrid_python ]] \
    && _turngrid_before=${BASH_REMATCH[1]}
complete -o default -F _turngrid @scripts@
complete -o default -F _turngrid_python @pythons@
"""
ZSH = r"""
_turngrid() {
    local -a found
    found=("${(@f)$(@ask@ query "${(j: :)words[1,CURRENT-1]} $PREFIX" '' 2> /dev/null)}")
    if [[ -z "${found[*]}" ]]; then
        compset -P '*='
        _files
        return
    fi
    compadd -Q -S '' -- ${(M)found:#*[=.]}
    compadd -Q -- ${found:#*[=.]}
}
_turngrid_python() {
    if [[ "${(j: :)words[1,CURRENT-1]} " =~ ' -m +(@modules@) ' ]]; then
        _turngrid
    else
        _python "$@"
    fi
}
autoload -Uz _python
compdef _turngrid @scripts@
compdef _turngrid_python @pythons@
"""
FISH = r"""
function __turngrid
    @ask@ query (commandline -cp | string collect) '' 2> /dev/null
end
for command in @scripts@
    complete -c $command -f -a '(__turngrid)'
end
for command in @pythons@
    complete -c $command -n 'string match -rq -- "\\s-m\\s+(@modules@)\\s" (commandline -cp)' -f -a '(__turngrid)'
end
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def script(shell: str) -> str:
    """What ``shell`` is to read; it asks the Python that is running now."""
    words = {
        "ask": shlex.join(["env", f"PYTHONPATH={ROOT}", sys.executable, "-P", "-m", "train.completion"]),
        "modules": "|".join(name.replace(".", "[.]") for name in MODULES),
        "scripts": " ".join(SCRIPTS),
        "pythons": " ".join(PYTHONS),
    }
    text = SHELLS[shell].strip()
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
