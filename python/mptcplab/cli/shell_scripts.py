"""The scripts that make shells complete. Unlike those of typer, they add no space after a name that
continues, and complete behind `=` and `:`.

Each script asks the program in the way of fish, which gets one proposal in each line, followed by a
tab and its explanation.
"""

from __future__ import annotations

from typer import _completion_shared

#: What the program is called with. The line ends at the cursor.
_ASK = "_TYPER_COMPLETE_FISH_ACTION=get-args %(autocomplete_var)s=complete_fish _TYPER_COMPLETE_ARGS"

# Bash replaces only what follows the last of the characters at which it breaks words. An option
# and its value are one word for the program, which proposes the value alone.
_BASH = (
    r"""
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" found word option="" kept="" breaks="${COMP_WORDBREAKS//[^=:]/}"
    COMPREPLY=()
    found="$(env """
    + _ASK
    + r"""="$line" "$1")"
    [[ $found ]] || return 0
    mapfile -t COMPREPLY <<< "$found"
    COMPREPLY=("${COMPREPLY[@]%%%%$'\t'*}")
    word="${line##*[[:blank:]]}"
    if [[ $word == --*=* ]]; then option="${word%%%%=*}="; fi
    if [[ $breaks && $word == *[$breaks]* ]]; then kept="${word%%"${word##*[$breaks]}"}"; fi
    COMPREPLY=("${COMPREPLY[@]/#/$option}")
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=.:/] ]]; then compopt -o nospace; fi
}

complete -o default -F %(complete_func)s %(prog_name)s
"""
)

_ZSH = (
    r"""
#compdef %(prog_name)s

%(complete_func)s() {
    local -a found closed open
    found=("${(@f)$(env """
    + _ASK
    + r"""="${(j: :)words[1,CURRENT]}" $words[1])}")
    found=("${(@)found:#}")
    if (( ! $#found )); then _files; return; fi
    if [[ $words[CURRENT] == --*=* ]]; then compset -P 1 '*='; fi
    open=("${(@M)found:#*[=.:/]}")
    open=("${(@)open:#*$'\t'*}")
    closed=("${(@)found:|open}")
    open=("${(@)open//:/\\:}")
    closed=("${(@)closed//:/\\:}")
    closed=("${(@)closed/$'\t'/:}")
    _describe -V '' open -S '' -- closed
}

compdef %(complete_func)s %(prog_name)s
"""
)

# Fish itself adds no space after these characters.
_FISH = (
    r"""
function %(complete_func)s
    set --local option (string match --regex '^--[^=]*=' -- (commandline --current-token --cut-at-cursor))
    env """
    + _ASK
    + r"""=(commandline --current-process --cut-at-cursor | string collect) %(prog_name)s \
        | string match --regex '.+' | string replace --regex '^' -- "$option"
end

complete --command %(prog_name)s --no-files --arguments '(%(complete_func)s)' \
    --condition 'test (count (%(complete_func)s)) -gt 0'
"""
)

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def offer() -> None:
    """Makes `--install-completion` and `--show-completion` give these scripts."""
    # typer has no public way to replace its scripts.
    _completion_shared._completion_scripts.update(SCRIPTS)
