"""`reprokit completion`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from reprokit.untrusted.terminal import document

# Prints the possible next words of $1, one a line, with their help after a tab.
_WORDS = (
    "_REPROKIT_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS={} reprokit 2>/dev/null"
)
_BASH = """\
_reprokit() {
  local word words=${COMP_LINE:0:COMP_POINT}
  local typed=${words##*[[:space:]]}
  typed=${typed#--*=}
  # Where a colon ends a word, bash replaces only what follows it.
  [[ $COMP_WORDBREAKS == *:* ]] && typed=${typed%"${typed##*:}"} || typed=
  COMPREPLY=()
  while IFS=$'\\t' read -r word _; do
    word=${word#"$typed"}
    # bash writes it on the command line as it is, and a file of a stranger may be called `$(program)`.
    [[ $word == *[!A-Za-z0-9_.:/@%+,=~-]* ]] && printf -v word %q "$word"
    [[ $word ]] && COMPREPLY+=("$word")
  done < <(WORDS)
  [[ ${COMPREPLY[0]} == */ ]] && compopt -o nospace
  return 0
}
complete -F _reprokit reprokit
"""
_ZSH = """\
#compdef reprokit
_reprokit() {
  local word help
  local -a found described folders
  while IFS=$'\\t' read -r word help; do
    if [[ $word == */ ]]; then
      folders+=("$word")
    elif [[ -n $word ]]; then
      found+=("$word")
      described+=("$word${help:+  -- $help}")
    fi
  done < <(WORDS)
  compset -P '--*='
  compadd -d described -a found
  compadd -S '' -a folders
}
if [[ $funcstack[1] == _reprokit ]]; then _reprokit "$@"; else compdef _reprokit reprokit; fi
"""
_FISH = "complete --command reprokit --no-files --arguments '(env WORDS)'\n"
_SCRIPTS = {
    "bash": _BASH.replace("WORDS", _WORDS.format('"$words"')),
    "zsh": _ZSH.replace("WORDS", _WORDS.format('"${(j: :)words[1,CURRENT]}"')),
    "fish": _FISH.replace("WORDS", _WORDS.format("(commandline --current-process --cut-at-cursor)")),
}


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell to print it for.")],
) -> None:
    """Print a script that completes verbs, options, recipes, variants, containers and nodes.

    bash: put `eval "$(reprokit completion bash)"` into ~/.bashrc. zsh: the same with zsh into ~/.zshrc, after
    compinit. fish: write it to ~/.config/fish/completions/reprokit.fish.
    """
    document(_SCRIPTS[shell])
