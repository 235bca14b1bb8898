"""Completion scripts for bash, zsh and fish.

They know nothing of `ll-loop`: on TAB each asks `ll-loop completion words -- WORD…`, with the words
typed so far and the one under the cursor last, and gets a candidate per line, with a description
after a tab.  If there is none, the shell offers files.
"""

from __future__ import annotations

MARK = "made by `ll-loop completion"

_BASH = f"""\
# {MARK} bash`
_ll_loop() {{
    # Split only at blanks: `@` and `:` can be part of a word, however readline treats them.
    local line=${{COMP_LINE:0:COMP_POINT}} words word _
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local cur=${{words[${{#words[@]}}-1]}}
    # Readline replaces only what follows the last character that breaks words for it.
    local kept=${{cur%"${{cur##*[@:=]}}"}}
    [[ -n $kept && $COMP_WORDBREAKS == *"${{kept: -1}}"* ]] || kept=
    COMPREPLY=()
    while IFS=$'\\t' read -r word _; do
        COMPREPLY+=("${{word#"$kept"}}")
    done < <(ll-loop completion words -- "${{words[@]:1}}" 2>/dev/null)
}}
complete -o bashdefault -o default -F _ll_loop ll-loop
"""

_ZSH = f"""\
#compdef ll-loop
# {MARK} zsh`
_ll-loop() {{
    local line tab=$'\\t'
    local -a found
    for line in ${{(f)"$(ll-loop completion words -- "${{(@)words[2,CURRENT]}}" 2>/dev/null)"}}; do
        line=${{line//:/\\\\:}}
        found+=("${{line/$tab/:}}")
    done
    if (( $#found )); then _describe ll-loop found; else _files; fi
}}
if [[ $funcstack[1] == _ll-loop ]]; then _ll-loop "$@"; else compdef _ll-loop ll-loop; fi
"""

_FISH = f"""\
# {MARK} fish`
function __ll_loop_words
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l found (ll-loop completion words -- $words[2..-1] "$cur" 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path "$cur"
    end
end
complete -c ll-loop -f -a '(__ll_loop_words)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
